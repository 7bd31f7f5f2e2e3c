"""`read`: a bounded range of every partition, decided when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.spark.options import BadOption
from headrace.spark.source.losses import report_loss
from headrace.spark.source.offsets import Offsets
from headrace.spark.source.planning import plan
from headrace.spark.source.settings import SourceSettings
from headrace.spark.source.watching import Watcher

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        watcher = Watcher(self._settings)
        watcher.require_topics()
        start = watcher.resolve(self._settings.start, is_start=True)
        end = watcher.resolve(self._settings.end, is_start=False)
        self._check(watcher, start, end)
        limits = self._settings.limits
        pieces = plan(start, end, min_partitions=limits.min_partitions, max_records=limits.max_records)
        return list(pieces)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from headrace.spark.source.reading import read

        return read(self._settings, partition)

    def _check(self, watcher: Watcher, start: Offsets, end: Offsets) -> None:
        """Puts offsets that are outside of what a partition has back inside, or raises."""
        fail = self._settings.reading.fail_on_data_loss
        oldest, newest = watcher.earliest(end), watcher.latest()
        for partition in sorted(end):
            if partition not in start or partition not in oldest or partition not in newest:
                report_loss(f"{partition} was deleted while the query was planned", fail=fail)
                del end[partition]
                continue
            if start[partition] < oldest[partition]:
                report_loss(f"{partition} begins at offset {oldest[partition]}, after {start[partition]}", fail=fail)
                start[partition] = oldest[partition]
            if end[partition] > newest[partition]:
                report_loss(f"{partition} ends at offset {newest[partition]}, before {end[partition]}", fail=fail)
                end[partition] = newest[partition]
            if start[partition] > end[partition]:
                raise BadOption(f"{partition}: the start, offset {start[partition]}, is after the end, {end[partition]}")
