"""`readStream`: the driver's side of a streaming query, in a process that lives as long as the query, and the tasks' read.

Spark asks for the offset of a new query (`initialOffset`, kept for the life of the process: Spark asks twice), then for each
micro-batch where it ends (`latestOffset`), for its tasks (`partitions`), and how far one could read (`reportLatestOffset`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.client.kafka.partitions import TopicPartition
from headrace.spark.connections import cluster
from headrace.spark.pieces import Piece
from headrace.spark.source.limiting import share_out
from headrace.spark.source.losses import report_loss
from headrace.spark.source.offsets import Offsets, from_checkpoint, listed, to_checkpoint
from headrace.spark.source.planning import plan
from headrace.spark.source.positions import LATEST, AtTimes, Everywhere, Exact
from headrace.spark.source.settings import SourceSettings
from headrace.spark.source.watching import Watcher

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._watcher = Watcher(settings)
        self._initial: Offsets | None = None
        self._asked = False
        self._pinned = False
        self._checked = False
        self._target: Offsets | None = None
        self._seen: Offsets = {}
        self._last_batch_at = float("-inf")

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamReader, (self._settings,)

    # The driver

    def initialOffset(self) -> dict[str, dict[str, int]]:
        if self._initial is None:
            self._watcher.require_topics()
            self._initial = self._watcher.resolve(self._settings.start, is_start=True)
        return to_checkpoint(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self._settings.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._watcher.latest()

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, dict[str, int]]:
        self._asked = True
        first = from_checkpoint(start)
        if self._pins_the_start(first):
            return to_checkpoint(first)
        end = self._available(first)
        if not isinstance(limit, ReadAllAvailable):
            if self._too_few(first, end):
                return to_checkpoint(first)
            if isinstance(limit, ReadMaxRows):
                end = share_out(limit.max_rows, self._beginnings(first, end), end)
        self._last_batch_at = time.monotonic()
        return to_checkpoint(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        return to_checkpoint(self._seen) or None

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[Piece]:
        first, last = from_checkpoint(start), from_checkpoint(end)
        if not self._is_the_first_again(first):
            self._report_losses(first, last)
        limits = self._settings.limits
        return plan(first, last, min_partitions=limits.min_partitions, max_records=limits.max_records)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Spark keeps the offsets; there is no consumer group to commit them to."""

    def stop(self) -> None:
        cluster(self._settings.endpoint).close()

    def _pins_the_start(self, first: Offsets) -> bool:
        """A query that starts at the end begins with an empty batch, which puts its start into the checkpoint: only the ends of
        batches are written there, and if the very first batch had records and had to be run again, its start would be looked
        up again and be later."""
        if self._pinned or not self._starts_at_the_end() or first != self._initial:
            return False
        self._pinned = True
        self._seen = dict(first)
        return True

    def _is_the_first_again(self, first: Offsets) -> bool:
        """Whether this is the query's first batch, begun by a process before this one: its end is in the checkpoint, but its
        start was just looked up. Since then partitions may have been added, and the ends have moved on: nothing is lost."""
        return not self._asked and first == self._initial

    def _starts_at_the_end(self) -> bool:
        start = self._settings.start
        if isinstance(start, Exact):
            return LATEST in start.offsets.values()
        return start == Everywhere(LATEST) or (isinstance(start, AtTimes) and start.or_latest)

    def _available(self, first: Offsets) -> Offsets:
        if self._target is None:
            self._seen = self._watcher.latest(first)
            return dict(self._seen)
        self._seen = dict(self._target)
        beyond = {partition: offset for partition, offset in first.items() if self._target.get(partition, -1) < offset}
        if beyond:  # a query that starts at the end may start after the target was set; otherwise records are lost
            now = self._watcher.latest(first)
            for partition, offset in beyond.items():
                self._seen.pop(partition, None)
                if partition in now:
                    self._seen[partition] = min(offset, now[partition])
        return dict(self._seen)

    def _beginnings(self, first: Offsets, end: Offsets) -> Offsets:
        """Where there are records to count from. Where losses are allowed, offsets without records should not use a batch up:
        it could take for ever to get past them."""
        unsure = end.keys() - first.keys() if self._settings.reading.fail_on_data_loss else end.keys()
        oldest = self._watcher.earliest(unsure)
        return {partition: max(first.get(partition, 0), oldest.get(partition, 0)) for partition in first.keys() | end.keys()}

    def _too_few(self, first: Offsets, end: Offsets) -> bool:
        """Whether the batch waits for `minOffsetsPerTrigger`. A query that ends with what there is never waits."""
        limits = self._settings.limits
        if limits.min_offsets is None or self._target is not None:
            return False
        if time.monotonic() - self._last_batch_at >= limits.max_delay_s:
            return False
        there = sum(max(offset - first.get(partition, 0), 0) for partition, offset in end.items())
        return there < limits.min_offsets

    def _report_losses(self, first: Offsets, last: Offsets) -> None:
        fail = self._settings.reading.fail_on_data_loss
        if gone := first.keys() - last.keys():
            report_loss(f"{listed(gone)} were deleted, or the query no longer subscribes to them", fail=fail)
        for partition in sorted(first.keys() & last.keys()):
            if last[partition] < first[partition]:
                was = f"{partition} ends at offset {last[partition]}, before {first[partition]}, where the query was"
                report_loss(f"{was}: its topic was deleted and made again, or the start was set beyond the end", fail=fail)
        for partition, oldest in sorted(self._watcher.earliest(self._to_check(first, last)).items()):
            if oldest > first.get(partition, 0):
                wanted = f"offset {first[partition]}, where the query goes on" if partition in first else "0 though it is new"
                report_loss(f"{partition} begins at offset {oldest}, after {wanted}", fail=fail)

    def _to_check(self, first: Offsets, last: Offsets) -> set[TopicPartition]:
        """Partitions whose beginning is asked for: all that are read, the first time, and later only new ones. The tasks find
        out by themselves, but the driver can say it of all partitions at once."""
        added = last.keys() - first.keys()
        read = {partition for partition in first.keys() & last.keys() if last[partition] > first[partition]}
        if self._checked or not read:
            return added
        self._checked = True
        return added | read

    # The tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from headrace.spark.source.reading import read

        return read(self._settings, partition)
