"""Reading archived segments: by offset, in whole batches, and by time.

The first look into a segment brings the object beside it with its index, which stays in memory within a bound. From the index
follow the chunks (`chunks`): the next one or two are asked for while a reader is in one, also across the end of a segment. What
is in memory is answered at once; what is not, when it has come, or with StorageError when the store fails or takes too long.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.clock import Clock
from headrace.disk.port import Buffer
from headrace.log.embedded.archive import chunks
from headrace.log.embedded.archive.chunks import ChunkCache
from headrace.log.embedded.archive.rows import ArchivedSegment
from headrace.log.embedded.archive.side import Aborted, Side
from headrace.log.embedded.archive.store import InThread, MissingObject, ObjectStore, StoreError
from headrace.log.embedded.loaded import LoadedIndexes
from headrace.log.embedded.segment import batch_size
from headrace.log.embedded.times import later, record_times
from headrace.log.errors import StorageError
from headrace.log.port import TimedOffset
from headrace.record import find_offset, scan_batches, whole_batches

if TYPE_CHECKING:
    from headrace.log.embedded.archive.parts import ArchivedPart

logger = logging.getLogger("headrace.archive")
T = TypeVar("T")

_AHEAD = 2  # chunks
_SAY_AGAIN_S = 30.0


class OpenedSegment:
    """An archived segment whose index is in memory."""

    __slots__ = ("_reader", "aborted", "index", "row", "starts")

    def __init__(self, reader: ArchiveReader, row: ArchivedSegment, side: Side) -> None:
        self._reader = reader
        self.row = row
        self.index = side.index
        self.aborted = side.aborted
        self.starts = [0]
        while (next_start := self.index.position_from(self.starts[-1] + chunks.CHUNK_BYTES)) is not None:
            self.starts.append(next_start)

    def span(self, number: int) -> tuple[int, int]:
        return self.starts[number], self.starts[number + 1] if number + 1 < len(self.starts) else self.row.size

    def chunk_at(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    @property
    def index_entries(self) -> int:
        return len(self.index)

    def drop_index(self) -> None:
        self._reader.forget(self.row)


class ArchiveReader:
    def __init__(self, store: ObjectStore, clock: Clock, in_thread: InThread, cache_bytes: int, timeout_s: float) -> None:
        self._store = store
        self._clock = clock
        self._in_thread = in_thread
        self._timeout_s = timeout_s
        self._cache = ChunkCache(cache_bytes)
        self._indexes = LoadedIndexes()
        self._opened: dict[str, OpenedSegment] = {}
        self._opening: dict[str, asyncio.Task[OpenedSegment]] = {}
        self._awaited_since: dict[asyncio.Task[Any], float] = {}
        self._said_at = float("-inf")

    # --- by offset

    def read(self, part: ArchivedPart, offset: int, max_bytes: int, at_least_one: bool) -> Buffer | Awaitable[Buffer]:
        """Whole batches from the one that holds `offset`; nothing when it lies behind the last batch of the part."""
        row = part.holding(offset)
        opened = self._opened.get(row.name) if row is not None else None
        if opened is not None:
            position = opened.index.before_offset(offset - opened.row.base_offset)[1]
            number = opened.chunk_at(position)
            data = self._cache.get((opened.row.name, number))
            if data is not None:
                self._ahead(part.from_offset(offset), opened, number)
                piece = _cut(opened, data, opened.starts[number], position, offset, max_bytes, at_least_one)
                if piece is not None:
                    return piece
        return self._read_later(part.from_offset(offset), offset, max_bytes, at_least_one)

    async def _read_later(self, rows: Sequence[ArchivedSegment], offset: int, max_bytes: int, at_least_one: bool) -> Buffer:
        for place, row in enumerate(rows):
            opened = await self._open(row)
            position = opened.index.before_offset(max(0, offset - row.base_offset))[1]
            first = opened.chunk_at(position)
            for number in range(first, len(opened.starts)):
                self._ahead(rows[place:], opened, number)
                data = await self._chunk(opened, number)
                begin = opened.starts[number]
                piece = _cut(opened, data, begin, max(position, begin), offset, max_bytes, at_least_one)
                if piece is not None:
                    return piece
        return b""

    def _ahead(self, rows: Sequence[ArchivedSegment], opened: OpenedSegment, number: int) -> None:
        """Asks for what a reader who goes on will want next."""
        left = _AHEAD
        while left and number + 1 < len(opened.starts):
            number += 1
            left -= 1
            self._begin(opened, number)
        if left and len(rows) > 1:
            following = self._opened.get(rows[1].name)
            if following is not None:
                self._begin(following, 0)
            elif rows[1].name not in self._opening:
                self._begin_opening(rows[1])

    def _begin(self, opened: OpenedSegment, number: int) -> None:
        place = (opened.row.name, number)
        if not self._cache.knows(place) and self._cache.coming < 2 * _AHEAD:
            self._load(opened, number)

    async def _chunk(self, opened: OpenedSegment, number: int) -> Buffer:
        data = self._cache.get((opened.row.name, number))
        return data if data is not None else await self._within_time(self._load(opened, number), opened.row.log_key)

    def _load(self, opened: OpenedSegment, number: int) -> asyncio.Task[Buffer]:
        start, end = opened.span(number)
        key = opened.row.log_key

        def bring() -> Buffer:
            data = self._store.read(key, start, end)
            if len(data) != end - start:
                raise StoreError(f"{key} has {len(data)} bytes from {start} on, where {end - start} should be")
            return data

        return self._cache.load((opened.row.name, number), lambda: self._in_thread(bring))

    async def _open(self, row: ArchivedSegment) -> OpenedSegment:
        opened = self._opened.get(row.name)
        return opened if opened is not None else await self._within_time(self._begin_opening(row), row.side_key)

    def _begin_opening(self, row: ArchivedSegment) -> asyncio.Task[OpenedSegment]:
        task = self._opening.get(row.name)
        if task is None:
            task = self._opening[row.name] = asyncio.get_running_loop().create_task(self._bring_side(row))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _bring_side(self, row: ArchivedSegment) -> OpenedSegment:
        def bring() -> OpenedSegment:
            return OpenedSegment(self, row, Side.of(self._store.read(row.side_key, 0, row.side_bytes), row.side_key))

        try:
            opened = self._opened[row.name] = await self._in_thread(bring)
            self._indexes.note(opened)
            return opened
        finally:
            self._opening.pop(row.name, None)

    async def _within_time(self, task: asyncio.Task[T], key: str) -> T:
        """Waits until the time is over that began with the first who waited for it; what was asked for goes on coming."""
        now = asyncio.get_running_loop().time()
        if task not in self._awaited_since:
            self._awaited_since[task] = now
            task.add_done_callback(lambda done: self._awaited_since.pop(done, None))
        try:
            left = max(0.0, self._awaited_since[task] + self._timeout_s - now)
            return await asyncio.wait_for(asyncio.shield(task), left)
        except MissingObject as error:
            logger.error("an object is missing in the archive: %s", error)
            raise StorageError(f"missing in the archive: {error}") from error
        except (StoreError, TimeoutError) as error:
            what = str(error) or f"{key}: no answer within {self._timeout_s:g} s"
            if self._clock.monotonic() - self._said_at > _SAY_AGAIN_S:
                self._said_at = self._clock.monotonic()
                logger.warning("the archive can't be read: %s", what)
            raise StorageError(f"the archive can't be read: {what}") from error

    def forget(self, row: ArchivedSegment) -> None:
        """Its index is not wanted in memory any more."""
        self._opened.pop(row.name, None)

    def close(self) -> None:
        self._cache.close()
        for task in self._opening.values():
            task.cancel()

    # --- by time

    async def first_at(self, rows: Sequence[ArchivedSegment], timestamp_ms: int, start: int) -> TimedOffset | None:
        """The first record from `start` on whose timestamp is at or after this one."""
        for row in rows:
            if row.max_timestamp < timestamp_ms or row.end_offset <= start:
                continue
            opened = await self._open(row)
            position = opened.index.before_time(timestamp_ms)[1]
            for number in range(opened.chunk_at(position), len(opened.starts)):
                data = await self._chunk(opened, number)
                skipped = max(0, position - opened.starts[number])
                found = await self._in_thread(partial(_first_at, data, skipped, timestamp_ms, start))
                if found is not None:
                    return found
        return None

    async def newest(self, rows: Sequence[ArchivedSegment], start: int) -> TimedOffset | None:
        """The record with the largest timestamp, the first of them."""
        best: TimedOffset | None = None
        for row in sorted(rows, key=lambda r: (-r.max_timestamp, r.base_offset)):
            if best is not None and row.max_timestamp < best.timestamp_ms:
                break
            found = await self.first_at([row], row.max_timestamp, start)
            if found is None:  # the largest was trimmed: only the oldest segment can be cut like that
                found = await self._newest_in(row, start)
            if found is not None and (best is None or later(found, best)):
                best = found
        return best

    async def _newest_in(self, row: ArchivedSegment, start: int) -> TimedOffset | None:
        opened = await self._open(row)
        best: TimedOffset | None = None
        for number in range(len(opened.starts)):
            data = await self._chunk(opened, number)
            found = await self._in_thread(partial(_newest_of, data, start))
            if found is not None and (best is None or later(found, best)):
                best = found
        return best

    # --- transactions

    async def aborted(self, rows: Sequence[ArchivedSegment]) -> list[Aborted]:
        """The aborted transactions whose markers lie in these segments, in the order of their markers."""
        return [one for row in rows for one in (await self._open(row)).aborted]


def _cut(
    opened: OpenedSegment, chunk: Buffer, begin: int, position: int, offset: int, max_bytes: int, at_least_one: bool
) -> Buffer | None:
    """Whole batches of a chunk that begins at `begin`, from the one that holds `offset`, looked for from `position` on. None
    when all batches lie before it."""
    view = memoryview(chunk)[position - begin :]
    start = find_offset(view, offset)
    if start < 0:
        if not whole_batches(view):
            raise StorageError(f"{opened.row.log_key}: no batch where one should begin, at {position}")
        return None
    view = view[start:]
    whole = whole_batches(view[:max_bytes])
    if not whole and at_least_one:
        whole = batch_size(view)
    return view[:whole]


def _first_at(chunk: Buffer, skip: int, timestamp_ms: int, start: int) -> TimedOffset | None:
    view = memoryview(chunk)[skip:]
    for found in scan_batches(view, 0, -1, True)[0]:
        if found[3] >= timestamp_ms and found[2] >= start:
            for offset, when in record_times(view[found[0] : found[0] + found[4]], found):
                if when >= timestamp_ms and offset >= start:
                    return TimedOffset(offset, when)
    return None


def _newest_of(chunk: Buffer, start: int) -> TimedOffset | None:
    view = memoryview(chunk)
    best: TimedOffset | None = None
    for found in scan_batches(view, 0, -1, True)[0]:
        if found[2] >= start and (best is None or found[3] > best.timestamp_ms):
            for offset, when in record_times(view[found[0] : found[0] + found[4]], found):
                if offset >= start and (best is None or when > best.timestamp_ms):
                    best = TimedOffset(offset, when)
    return best
