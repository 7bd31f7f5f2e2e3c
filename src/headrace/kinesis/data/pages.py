"""Reading a shard: committed records from an offset on, encoded for an answer. For GetRecords and for fan-out.

What is read is what was there when the shard was asked, in portions of `READ_BYTES` (or one batch, if that is longer) between
which others have their turn; a shard that was closed ends where it was closed. Markers of transactions, and what was aborted,
are passed over; so are batches that can't be decoded, with a line in the log.

Bounds: `max_bytes` and `max_records` as the caller says, and `MAX_LOOKED` bytes of batches in which nothing was found, so that
one call never takes long. A batch that is compressed is unpacked in a thread unless it is small; `UNPACKING` of them at a time
in the whole process, each with at most what `record.compression` allows (128 MiB).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.broker.groups.share.reading import found_in
from headrace.kinesis.data.twin import RecordList
from headrace.log.errors import OffsetOutOfRange
from headrace.record import BatchError, BatchHeader, CorruptBatch, read_header
from headrace.record.batch import HEADER_SIZE, TimestampType
from headrace.record.compression import decompress

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream
    from headrace.log.port import Buffer, Partition

logger = logging.getLogger("headrace.kinesis")

READ_BYTES = 1024 * 1024
MAX_LOOKED = 32 * 1024 * 1024
MAX_BATCH_RECORDS = 500_000  # a compressed batch of a megabyte could be made to hold millions
UNPACKING = 2
_SMALL = 4 * 1024
_RECORD_BYTES = 2 * 1024  # a guess, so that a small limit does not read a lot

_unpacking = ThreadPoolExecutor(UNPACKING, "kinesis-unpacking")  # has no threads before there is something to do


class Page:
    """What was found. `at_end`: there is nothing more to read now; `drained`: and there never will be, the shard is closed."""

    __slots__ = ("_records", "at_end", "drained", "next_offset", "seen_ms")

    def __init__(self, records: RecordList, next_offset: int, at_end: bool, drained: bool, seen_ms: int) -> None:
        self._records = records
        self.next_offset = next_offset
        self.at_end = at_end
        self.drained = drained
        self.seen_ms = seen_ms  # the time of what was looked at last

    @property
    def count(self) -> int:
        return self._records.count

    @property
    def size(self) -> int:
        """Bytes of data and partition keys."""
        return self._records.size

    @property
    def last_ms(self) -> int:
        """The arrival of the last record; -1 if there is none."""
        return self._records.last_ms

    def body(self, tail: bytes, members: int) -> bytes:
        """An object with the records as its member Records, and so many other members as `tail` has encoded: in JSON each with
        a comma before it, in CBOR names and values."""
        return self._records.body(tail, members)


def millis_behind(page: Page, now_ms: int) -> int:
    """MillisBehindLatest: how old is what was read last, if there is more."""
    return 0 if page.at_end else max(0, now_ms - page.seen_ms)


async def read_records(stream: Stream, shard: Shard, offset: int, *, max_records: int, max_bytes: int, form: int) -> Page:
    """From this offset on, or from the start if that is behind it. Raises LogError."""
    partition = stream.partition(shard)
    encryption = None if stream.encryption_type == "NONE" else str(stream.encryption_type)
    keyless = stream.distribution == "AUTO"
    records = RecordList(form, int(shard.starting_sequence_number), max_records, max_bytes, encryption, keyless)
    reader = _Reader(partition, shard, records)
    position = offset
    if position > partition.end_offset:
        position = partition.start_offset  # it has lost its end (a topic in memory, a crash): rather twice than never
    position = max(position, partition.start_offset)
    looked = 0
    while position < (end := reader.end()) and not records.full and looked < MAX_LOOKED:
        wanted = min(READ_BYTES, max_bytes - records.size + HEADER_SIZE, _RECORD_BYTES * (max_records - records.count))
        try:
            data: Buffer | Awaitable[Buffer] = partition.read(position, max(wanted, 1), committed=True)
            if isinstance(data, Awaitable):
                data = await data
        except OffsetOutOfRange:  # trimmed meanwhile
            if partition.start_offset <= position:
                raise
            position = partition.start_offset
            continue
        if not data:
            break
        if looked:
            await asyncio.sleep(0)
        looked += len(data)
        following = await reader.take(data, position, end)
        if following <= position:
            break
        position = following
    closed = shard.closed_at
    drained = closed is not None and position >= min(closed, partition.end_offset)
    return Page(records, position, position >= reader.end(), drained, reader.seen_ms)


class _Reader:
    __slots__ = ("_closed_at", "_partition", "records", "seen_ms")

    def __init__(self, partition: Partition, shard: Shard, records: RecordList) -> None:
        self._partition = partition
        self._closed_at = shard.closed_at
        self.records = records
        self.seen_ms = -1

    def end(self) -> int:
        """Where what can be read ends."""
        end = self._partition.last_stable_offset
        return end if self._closed_at is None else min(end, self._closed_at)

    async def take(self, data: Buffer, start: int, end: int) -> int:
        """Takes what is wanted of these batches; returns where to go on. Raises CorruptBatch where not even the end of a batch
        can be told."""
        records = self.records
        readable: dict[int, bool] | None = None
        at = 0
        while True:
            at = records.take(data, at, start, end)
            if records.full or len(data) - at < HEADER_SIZE:
                break
            header = read_header(data, at)  # compressed, a part of a transaction, or not as it was stored
            if header.base_offset >= end:
                break
            if header.transactional and readable is None:
                readable = {extent.first: extent.readable for extent, _ in found_in(data, self._partition, committed=True)}
            if header.record_count and (not header.transactional or (readable or {}).get(header.base_offset)):
                try:
                    await self._take_batch(header, memoryview(data)[at + HEADER_SIZE : at + header.size], start, end)
                except BatchError as error:
                    where = f"{self._partition.topic}-{self._partition.index}"
                    logger.warning("%s: the batch at offset %d can't be read: %s", where, header.base_offset, error)
            if records.full:
                break
            self.seen_ms = header.max_timestamp_ms
            records.next_offset = max(records.next_offset, header.last_offset + 1)
            at += header.size
        if records.last_ms >= 0:
            self.seen_ms = records.last_ms
        return min(max(records.next_offset, start), end)

    async def _take_batch(self, header: BatchHeader, packed: memoryview, start: int, end: int) -> None:
        """Raises BatchError."""
        if header.record_count > MAX_BATCH_RECORDS:
            raise CorruptBatch(f"more than {MAX_BATCH_RECORDS} records")
        append_ms = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else -1

        def unpack_and_take() -> None:
            payload = decompress(header.compression, packed)
            count, base, base_ms = header.record_count, header.base_offset, header.base_timestamp_ms
            self.records.take_records(payload, count, base, base_ms, append_ms, start, end)

        if not header.compression or len(packed) <= _SMALL:
            unpack_and_take()
            return
        await asyncio.get_running_loop().run_in_executor(_unpacking, unpack_and_take)
