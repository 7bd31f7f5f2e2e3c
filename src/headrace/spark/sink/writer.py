"""The classes that Spark calls: made on the driver, sent to the tasks, and asked on the driver to end a batch.

Spark makes a new streaming writer for each of these (`streamWriter` is called to plan a batch and again to end it): it has
nothing but its settings, and what the driver needs to know about tasks is in their messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.spark.options import BadOption
from headrace.spark.sink.schema import check_schema
from headrace.spark.sink.settings import WriteSettings, read_settings
from headrace.spark.sink.work import STATELESS_ADAPTIVE, Work, refuse_adaptive, refuse_unnamed, single_work, streaming_work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headrace.spark.sink.producing import Tally


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    work: Work | None  # None where it does not matter who wrote
    rows: int
    size_bytes: int
    topics: tuple[str, ...]
    skipped: bool = False  # an earlier attempt had written it


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    settings = read_settings(options, streaming=True)
    check_schema(schema, settings.topic)
    if overwrite:
        raise BadOption(
            "a topic can't be overwritten, as output mode complete would; use append, or foreachBatch with output mode update "
            "and a key for each row"
        )
    return StreamWriter(settings)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    settings = read_settings(options, streaming=False)
    check_schema(schema, settings.topic)
    if overwrite:
        raise BadOption("a topic can't be overwritten, rows are added to it: use mode('append')")
    return BatchWriter(settings, uuid.uuid4().hex)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._settings.exactly_once:
            return _write(iterator, self._settings, None)
        if not self._settings.allow_adaptive:
            refuse_adaptive(STATELESS_ADAPTIVE)
        return _write(iterator, self._settings, streaming_work())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _mark_batch(messages, self._settings)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, settings: WriteSettings, write_id: str) -> None:
        self._settings = settings
        self._write_id = write_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._settings, self._work())

    def _work(self) -> Work | None:
        if not self._settings.exactly_once:
            return None
        if self._settings.sink_name is not None:
            if not self._settings.allow_adaptive:
                refuse_adaptive()
            return streaming_work(self._settings.sink_name)
        refuse_unnamed()
        return single_work(self._write_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _mark_batch(messages, self._settings)


def _write(batches: Iterator[pa.RecordBatch], settings: WriteSettings, work: Work | None) -> Written:
    if work is None:
        from headrace.spark.sink.at_least_once import write_at_least_once

        return _message(None, write_at_least_once(batches, settings), False)
    from headrace.spark.sink.exactly_once import write_exactly_once

    return _message(work, *write_exactly_once(batches, settings, work))


def _message(work: Work | None, tally: Tally, skipped: bool) -> Written:
    return Written(work, tally.rows, tally.size_bytes, tuple(sorted(tally.topics)), skipped)


def _mark_batch(messages: list[WriterCommitMessage | None], settings: WriteSettings) -> None:
    """Every task has committed: the marker of the whole, which tells later tasks that markers are being kept."""
    written = [message for message in messages if isinstance(message, Written) and message.work is not None]
    if not written:
        return
    topics = {topic for message in written for topic in message.topics} or ({settings.topic} if settings.topic else set())
    from headrace.spark.sink.kept import servers_of
    from headrace.spark.sink.markers import Marker, forget_markers, leave_marker

    work = written[0].work
    assert work is not None
    servers = servers_of(settings)
    rows, size = sum(message.rows for message in written), sum(message.size_bytes for message in written)
    leave_marker(servers, work.name, Marker(work.batch, rows, size), topics)
    if not work.lasting:
        forget_markers(servers, [m.work.group for m in written if m.work is not None and m.rows])
