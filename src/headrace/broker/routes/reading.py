"""What is read of a partition: records that are committed, in order, and what can't be read.

A page is one read: `READ_BYTES`, or one batch if that is longer; of batches that hold many small records, or are compressed, as
many as it takes for `PAGE_RECORDS`, or for as many as are wanted. It is passed on in portions of at most `PORTION_RECORDS` and
about `PORTION_BYTES`, between which others have their turn, as they have while it is decoded: single records in a thousand
batches take milliseconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import field

from headrace.broker.groups.share.reading import look_through
from headrace.dataclass import dataclass
from headrace.log.port import Buffer, Partition
from headrace.record import BatchError, CorruptBatch, Record, decode_batch, read_header
from headrace.short_turns import ShortTurns

READ_BYTES = 256 * 1024
PAGE_RECORDS = 2048
PORTION_RECORDS = 256
PORTION_BYTES = 128 * 1024
MAX_BATCH_RECORDS = 500_000  # a compressed batch of a megabyte could be made to hold millions


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A batch whose records can't be had."""

    first: int
    last: int
    timestamp_ms: int
    reason: str


@dataclass(slots=True)
class Portion:
    """Records, or one batch that can't be read. Behind it the reader stands at `next_offset`."""

    next_offset: int
    records: list[Record] = field(default_factory=list)
    unreadable: Unreadable | None = None

    def cut(self, end: int) -> None:
        """Nothing from this offset on."""
        if self.next_offset > end:
            self.records = [record for record in self.records if record.offset < end]
            self.next_offset = end


async def read_page(
    partition: Partition, offset: int, max_bytes: int = READ_BYTES, enough: int = PAGE_RECORDS
) -> list[Portion]:
    """Raises LogError. Empty if there is nothing to read."""
    data: Buffer | Awaitable[Buffer] = partition.read(offset, max_bytes, committed=True)
    if isinstance(data, Awaitable):
        data = await data
    found: list[Portion] = []
    turns = ShortTurns()
    for portion in _portions(data, partition, offset, enough):
        if portion is not None:
            found.append(portion)
        elif turns.over:
            await turns.rest()
    return found


def _portions(data: Buffer, partition: Partition, offset: int, enough: int) -> Iterator[Portion | None]:
    """None before each batch."""
    portion = Portion(offset)
    size = taken = 0
    for extent, batch in look_through(data, partition, committed=True):
        yield None
        if extent.readable:
            try:
                records = _decoded(batch)
            except BatchError as error:
                if portion.next_offset > offset or portion.records:
                    yield portion
                when_ms = read_header(batch).max_timestamp_ms
                yield Portion(extent.last + 1, unreadable=Unreadable(extent.first, extent.last, when_ms, str(error)))
                portion, size = Portion(extent.last + 1), 0
                offset = portion.next_offset
                continue
            for record in records:
                if record.offset < offset:
                    continue
                if len(portion.records) >= PORTION_RECORDS or (portion.records and size >= PORTION_BYTES):
                    yield portion
                    portion, size = Portion(record.offset), 0
                portion.records.append(record)
                portion.next_offset = record.offset + 1
                size += len(record.value or b"") + len(record.key or b"")
                taken += 1
        portion.next_offset = max(portion.next_offset, extent.last + 1)
        if taken >= enough:
            break
    if portion.next_offset > offset:
        yield portion


def _decoded(batch: memoryview) -> list[Record]:
    if read_header(batch).record_count > MAX_BATCH_RECORDS:
        raise CorruptBatch(f"more than {MAX_BATCH_RECORDS} records")
    return decode_batch(batch, check_crc=False)
