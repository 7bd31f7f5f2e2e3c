"""The way of messages into a stream's topic: each to the partition of its key, in batches that the topic takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.broker.open_partitions import open_for_key, open_in_turn
from headrace.broker.queues.run import Run
from headrace.log.errors import BatchTooLarge
from headrace.log.port import Partition
from headrace.record.amqp.mapping import run_to_records, topic_batch
from headrace.record.partitioner import partition_for_key

if TYPE_CHECKING:
    from headrace.record.pure.records import RawRecord

_BATCH_BYTES = 512 * 1024  # a topic's limit is 1 MiB unless it says otherwise
_RECORD_BYTES = 32  # about what a record takes beside its parts


def append_run(run: Run, partitions: Sequence[Partition], without_key: int, now_ms: int) -> None:
    """Messages without a key all go to the partition `without_key`; sealed partitions are passed over. Raises
    MalformedProperties and what the log raises; then some of the messages may have been appended."""
    records = run_to_records(run.records, run.count, now_ms)
    for partition, group in _by_partition(records, partitions, without_key):
        for batch in _in_batches(group):
            _append(partition, batch, now_ms)


def _by_partition(
    records: list[RawRecord], partitions: Sequence[Partition], without_key: int
) -> Iterable[tuple[Partition, list[RawRecord]]]:
    if len(partitions) == 1:
        return ((partitions[0], records),)
    groups: dict[int, list[RawRecord]] = {}
    known: dict[bytes | None, int] = {None: open_in_turn(without_key, without_key, partitions)}
    for record in records:
        key = record[2]
        number = known.get(key)
        if number is None:
            assert key is not None
            number = known[key] = open_for_key(key, partition_for_key(key, len(partitions)), partitions)
        groups.setdefault(number, []).append(record)
    return [(partitions[number], group) for number, group in groups.items()]


def _append(partition: Partition, records: list[RawRecord], now_ms: int) -> None:
    try:
        partition.append(topic_batch(records, now_ms))
    except BatchTooLarge:
        if len(records) == 1:
            raise
        half = len(records) // 2
        _append(partition, records[:half], now_ms)
        _append(partition, records[half:], now_ms)


def _in_batches(records: list[RawRecord]) -> Iterator[list[RawRecord]]:
    batch: list[RawRecord] = []
    size = 0
    for record in records:
        more = _RECORD_BYTES + len(record[3] or b"")
        for name, content in record[4]:
            more += len(name) + len(content or b"")
        if batch and size + more > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += more
    yield batch
