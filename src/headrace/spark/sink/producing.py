"""The rows of a task on their way: gathered into chunks, each row given its partition, encoded, handed to a sender.

Nothing here works row by row: chunks are encoded by `columns.twin`. Rows with a key go to the partition that murmur2 of the key
says, as with Kafka's Java client; rows without one stay together, on one partition for each chunk; the column `partition` wins.

Bounds: a chunk is CHUNK_BYTES, or one row if that is larger; the encoded chunk beside it is of the same order; what the sender
holds is bounded there. Arrow batches are what Spark makes them (spark.sql.execution.arrow.maxRecordsPerBatch).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.client.kafka.partitioner import StickyChoice
from headrace.client.kafka.partitions import TopicPartition
from headrace.client.kafka.sending import EncodedRecords
from headrace.spark.columns.errors import NoSuchPartition
from headrace.spark.columns.twin import choose_targets, encode_rows
from headrace.spark.columns.views import headers_view, numbers_view, size_bytes, text_view, times_view

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster
    from headrace.client.kafka.sending import Sender
    from headrace.spark.sink.settings import WriteSettings

CHUNK_BYTES = 4 * 1024 * 1024


class BadRow(ValueError):
    """A row that can't be written. The text says why."""


@dataclass(slots=True)
class Tally:
    """What a task has written, or would have."""

    rows: int = 0
    size_bytes: int = 0
    topics: set[str] = field(default_factory=set)

    def add(self, chunk: pa.RecordBatch) -> None:
        self.rows += chunk.num_rows
        self.size_bytes += size_bytes(_column(chunk, "key")) + size_bytes(_column(chunk, "value"))


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together, large ones cut, none empty."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        for piece in _cut(batch):
            if held and held_bytes + piece.nbytes > CHUNK_BYTES:
                yield _joined(held)
                held, held_bytes = [], 0
            held.append(piece)
            held_bytes += piece.nbytes
    if held:
        yield _joined(held)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    pieces = max(1, -(-batch.nbytes // CHUNK_BYTES))
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _column(chunk: pa.RecordBatch, name: str) -> pa.Array | None:
    for position, field_name in enumerate(chunk.schema.names):
        if field_name.lower() == name:
            return chunk.column(position)
    return None


class Encoder:
    """Chunks to the records of partitions. One for each task."""

    def __init__(self, cluster: Cluster, settings: WriteSettings, chance: random.Random | None = None) -> None:
        self._cluster = cluster
        self._settings = settings
        self._chance = chance or random.Random()
        self._sticky: dict[str, StickyChoice] = {}

    def encode(self, chunk: pa.RecordBatch) -> Iterator[tuple[TopicPartition, EncodedRecords]]:
        names, numbers = self._topics(chunk)
        key, value, partition = (_column(chunk, name) for name in ("key", "value", "partition"))
        headers, when = _column(chunk, "headers"), _column(chunk, "timestamp")
        counts = [len(topic.partitions) for topic in self._cluster.topics(names, create=True).values()]
        firsts = [sum(counts[:place]) for place in range(len(counts))]
        keys = None if key is None else text_view(key)
        try:
            targets = choose_targets(
                chunk.num_rows,
                keys,
                None if partition is None else numbers_view(partition),
                numbers,
                firsts,
                counts,
                [self._sticky_partition(name, count) for name, count in zip(names, counts, strict=True)],
            )
        except NoSuchPartition as error:
            last = counts[error.topic] - 1
            raise BadRow(
                f"a row asks for partition {error.partition} of topic '{names[error.topic]}', whose partitions are 0 to {last}"
            ) from None
        places = [TopicPartition(name, index) for name, count in zip(names, counts, strict=True) for index in range(count)]
        for target, payload, records, first_ms, highest_ms in encode_rows(
            chunk.num_rows,
            targets,
            len(places),
            keys,
            text_view(value),
            None if headers is None else headers_view(headers),
            None if when is None else times_view(when),
            time.time_ns() // 1_000_000,
            self._settings.batch_bytes,
        ):
            yield places[target], EncodedRecords(payload, records, first_ms, highest_ms)

    def _topics(self, chunk: pa.RecordBatch) -> tuple[list[str], pa.Buffer | None]:
        """The topics that rows go to, and for each row the number of its topic among them."""
        if self._settings.topic is not None:
            return [self._settings.topic], None
        column = _column(chunk, "topic")
        if column is None or column.null_count:
            raise BadRow("a row has no topic: the column 'topic' is null; the option topic gives one for all rows")
        coded = column.dictionary_encode()
        numbers = coded.indices
        return coded.dictionary.to_pylist(), pa.py_buffer(memoryview(numbers.buffers()[1])[4 * numbers.offset :])

    def _sticky_partition(self, topic: str, count: int) -> int:
        choice = self._sticky.get(topic)
        if choice is None or choice.current >= count:
            choice = self._sticky[topic] = StickyChoice(count, self._chance)
        else:
            choice.move()
        return choice.current


def produce(rows: Iterator[pa.RecordBatch], encoder: Encoder, sender: Sender) -> Tally:
    """Everything, acknowledged when this returns."""
    tally = Tally()
    for chunk in rows:
        tally.add(chunk)
        sender.send(encoder.encode(chunk))
    sender.flush()
    tally.topics.update(partition.topic for partition in sender.partitions)
    return tally
