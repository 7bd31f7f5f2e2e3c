"""What subscriptions send, read and encoded once for all who need it.

The consumers of a shard stand at its end, all at the same offset, and wake together: what one of them has read and encoded is
what the others need. A portion is found by where it begins; what is in the log does not change, so it stays right as long as it
is kept, though later there may be more to read from the same place. Several who want the same at once wait for the first.

Bound: `MAX_BYTES` in all, and at most one portion more; the one that was asked for longest ago goes first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.kinesis.data.pages import read_records
from headrace.kinesis.data.shared import FORMS

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.codec.encoding import Encoding

MAX_BYTES = 32 * 1024 * 1024
MAX_RECORDS = 10_000


class Place(NamedTuple):
    """Where a portion begins, and all else that decides what it looks like."""

    topic_id: UUID
    shard: int
    offset: int
    form: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Some records, perhaps none. Whoever has had them stands at `next_offset`."""

    encoded: bytes  # an object with the one member Records
    count: int
    size: int  # of data and partition keys
    next_offset: int
    last_ms: int  # the arrival of the last one


class Portions:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Place, Portion] = OrderedDict()
        self._reading: dict[Place, asyncio.Event] = {}
        self._bytes = 0

    async def get(self, stream: Stream, shard: Shard, offset: int, encoding: Encoding, max_bytes: int) -> Portion:
        """Records from this offset on, `max_bytes` of them. Raises LogError."""
        place = Place(stream.topic.topic_id, shard.index, offset, FORMS[encoding])
        while (portion := self._kept.get(place)) is None:
            other = self._reading.get(place)
            if other is None:
                return await self._read(place, stream, shard, max_bytes)
            await other.wait()  # it may have failed: then this one tries
        self._kept.move_to_end(place)
        return portion

    async def _read(self, place: Place, stream: Stream, shard: Shard, max_bytes: int) -> Portion:
        read = self._reading[place] = asyncio.Event()
        try:
            page = await read_records(
                stream, shard, place.offset, max_records=MAX_RECORDS, max_bytes=max_bytes, form=place.form
            )
        finally:
            del self._reading[place]
            read.set()
        portion = Portion(page.body(b"", 0), page.count, page.size, page.next_offset, page.last_ms)
        if portion.next_offset > place.offset:
            self._keep(place, portion)
        return portion

    def _keep(self, place: Place, portion: Portion) -> None:
        self._kept[place] = portion
        self._bytes += len(portion.encoded)
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.encoded)
