"""An event on its way: one that was just read, or one that has a row and is read again for each attempt."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from headrace.broker.groups.share.reading import found_in
from headrace.log.errors import OffsetOutOfRange
from headrace.record import BatchError, Record, decode_batch
from headrace.webhooks.lanes import Lane
from headrace.webhooks.pending import Row
from headrace.webhooks.window import Window

if TYPE_CHECKING:
    from headrace.log.port import Buffer, Partition


class Item:
    """`record` is what is sent, `original` what the topic holds: another one where the route has a transform."""

    __slots__ = ("lane", "offset", "original", "record", "row", "size", "window")

    def __init__(
        self,
        window: Window,
        offset: int,
        lane: bytes | None,
        record: Record | None = None,
        original: Record | None = None,
        row: Row | None = None,
    ) -> None:
        self.window = window
        self.offset = offset
        self.record = record
        self.original = original
        self.row = row
        self.lane: Lane | None = None if lane is None else (window.partition, lane)
        self.size = 0  # what is counted of it

    def measure(self) -> int:
        """About what it takes in memory."""
        size = 0 if self.record is None else size_of(self.record)
        if self.original is not None and self.original is not self.record:
            size += size_of(self.original)
        return size


def size_of(record: Record) -> int:
    """About what it takes in memory."""
    size = 200 + len(record.key or b"") + len(record.value or b"")
    return size + sum(100 + len(name) + len(value or b"") for name, value in record.headers)


async def read_one(partition: Partition, offset: int) -> Record | None:
    """None if retention or compaction has taken it. Raises LogError."""
    try:
        data: Buffer | Awaitable[Buffer] = partition.read(offset, 1, committed=True)
        if isinstance(data, Awaitable):
            data = await data
    except OffsetOutOfRange:
        return None
    for extent, batch in found_in(data, partition, committed=True):
        if extent.readable and extent.first <= offset <= extent.last:
            try:
                records = decode_batch(batch, check_crc=False)
            except BatchError:
                return None
            return next((record for record in records if record.offset == offset), None)
    return None
