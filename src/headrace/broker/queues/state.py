"""What queues write down: how far they are settled. The table `__headrace_queues`, with these rows for each durable lane:

    queue id (16 bytes), lane, "f"                 floor, mark, reserved                        3 x int64
    queue id (16 bytes), lane, "c", chunk (int64)  what is settled and counted in 4,096 offsets

A chunk's row: the number of ranges (uint16), each as first and count (2 x uint16); when that would be longer than a bitmap,
0xffff and 512 bytes of it. Then for each message that was given back: its place in the chunk (uint16), how often (uint32),
and until when it rests (int64, 0 if it does not). Rows of chunks below the floor are removed.

Changes are gathered for some 20 ms and written in one go for all queues, at the end of a turn. Nobody waits for that: an
acknowledgement has no answer in AMQP, and one that a crash took back brings its message again, flagged as redelivered. The mark
is what makes that flag sure: it is durable before anything below it is delivered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.queues.lane import CHUNK_BITS, MARK_BLOCK, Lane
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.queues.turns import Turns
    from headrace.clock import Clock, Timer
    from headrace.log.port import Log, Table

TABLE = "__headrace_queues"
_GATHER_S = 0.02  # a crash takes back this much, and what the commit lingers and the sync takes
_RETRY_S = 1.0
_FLOOR = struct.Struct(">qqq")
_CHUNK_KEY = struct.Struct(">q")
_COUNT = struct.Struct(">H")
_RANGE = struct.Struct(">HH")
_RETURNED = struct.Struct(">HIq")
_CHUNK = 1 << CHUNK_BITS
_BITMAP = 0xFFFF
_ID_BYTES = 16

LaneKey = bytes  # queue id and lane number
Rows = dict[bytes, bytes | None]


def lane_key(queue_id: bytes, lane: int) -> LaneKey:
    return queue_id + bytes([lane])


class QueueStates:
    """Writes lanes down, and reads them at the start."""

    def __init__(self, log: Log, clock: Clock, turns: Turns) -> None:
        self._log = log
        self._clock = clock
        self._turns = turns
        self._changed: dict[Lane, LaneKey] = {}
        self._timer: Timer | None = None
        self._table: Table
        self._found: dict[LaneKey, _Found] = {}

    async def start(self) -> None:
        self._table = await self._log.table(TABLE)
        for key, value in self._table.items():
            lane, kind = key[: _ID_BYTES + 1], key[_ID_BYTES + 1 : _ID_BYTES + 2]
            found = self._found.setdefault(lane, _Found())
            if kind == b"f":
                found.floor, found.mark, _ = _FLOOR.unpack(value)
            else:
                found.read_chunk(_CHUNK_KEY.unpack(key[_ID_BYTES + 2 :])[0], value)

    def restore(self, lane: Lane, key: LaneKey) -> None:
        """What was known of a lane; at once written down again if a crash took back some of it."""
        found = self._found.pop(key, None)
        if found is None:
            return
        lane.stored_chunks = found.chunks
        lane.restore(found.floor, found.settled, found.mark, found.counts, found.resting)
        lane.changed_chunks.update(chunk for chunk in found.chunks if (chunk + 1) << CHUNK_BITS > lane.end)
        if lane.changed_chunks or found.floor > lane.end or found.mark > lane.end:
            self.changed(lane, key)
            self.write()

    def forget_unknown(self) -> None:
        """Removes rows of queues that are no more; called when all queues are restored."""
        rows: Rows = {}
        for key, found in self._found.items():
            rows[key + b"f"] = None
            rows |= {key + b"c" + _CHUNK_KEY.pack(chunk): None for chunk in found.chunks}
        self._found.clear()
        if rows:
            self._table.put(rows)

    # --- writing

    def changed(self, lane: Lane, key: LaneKey) -> None:
        self._changed[lane] = key
        if self._timer is None:
            self._timer = self._clock.call_later(_GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._turns.at_end(self._write_gathered)  # messages that have come meanwhile go first

    def _write_gathered(self) -> None:
        self._timer = None
        try:
            self.write()
        except LogError:  # a full disk: what is settled stays in memory until there is room
            self._timer = self._clock.call_later(_RETRY_S, self._gathered)

    def write(self) -> None:
        if not self._changed:
            return
        rows: Rows = {}
        for lane, key in self._changed.items():
            _write_lane(lane, key, rows)
        self._table.put(rows)
        for lane in self._changed:
            _written(lane)
        self._changed.clear()

    def extend_mark(self, lane: Lane, key: LaneKey, extended: Callable[[], None]) -> None:
        """Allows another block of deliveries, once that is durable."""
        wanted = lane.mark_wanted = lane.next + MARK_BLOCK
        rows: Rows = {}
        _write_lane(lane, key, rows)
        try:
            self._table.put(rows)
        except LogError:
            lane.mark_wanted = lane.mark
            self._clock.call_later(_RETRY_S, extended)  # it will ask again
            return
        _written(lane)
        self._changed.pop(lane, None)

        def synced(error: Exception | None) -> None:
            if error is None:
                lane.mark = max(lane.mark, wanted)
                extended()
            else:
                lane.mark_wanted = lane.mark

        self._log.after_sync(synced)

    def forget(self, lanes: list[tuple[Lane, LaneKey]]) -> None:
        """Their queue is deleted."""
        rows: Rows = {}
        for lane, key in lanes:
            self._changed.pop(lane, None)
            rows[key + b"f"] = None
            rows |= {key + b"c" + _CHUNK_KEY.pack(chunk): None for chunk in lane.stored_chunks}
        self._table.put(rows)

    def close(self, lanes: list[tuple[Lane, LaneKey]]) -> None:
        """A clean end: the mark of each lane is exact, so that the next start flags what was delivered and no more."""
        if self._timer is not None:
            self._timer.cancel()
        for lane, key in lanes:
            if lane.mark > lane.next or lane in self._changed:
                lane.mark = lane.mark_wanted = max(lane.next, lane.redelivered_below)
                self._changed[lane] = key
        try:
            self.write()
        except LogError:
            return  # the marks on disk are larger, which is safe


def _write_lane(lane: Lane, key: LaneKey, rows: Rows) -> None:
    rows[key + b"f"] = _FLOOR.pack(lane.floor, max(lane.mark, lane.mark_wanted), 0)
    below = lane.floor >> CHUNK_BITS
    for chunk in lane.changed_chunks:
        if chunk >= below:
            content = _chunk_row(lane, chunk)
            if content or chunk in lane.stored_chunks:
                rows[key + b"c" + _CHUNK_KEY.pack(chunk)] = content or None
    for chunk in lane.stored_chunks:
        if chunk < below:
            rows[key + b"c" + _CHUNK_KEY.pack(chunk)] = None


def _written(lane: Lane) -> None:
    below = lane.floor >> CHUNK_BITS
    lane.stored_chunks.update(lane.changed_chunks)
    lane.stored_chunks = {chunk for chunk in lane.stored_chunks if chunk >= below}
    lane.changed_chunks.clear()


def _chunk_row(lane: Lane, chunk: int) -> bytes:
    first = chunk << CHUNK_BITS
    ranges = [(start - first, end - start) for start, end in lane.settled.within(first, first + _CHUNK)]
    if len(ranges) * _RANGE.size <= _CHUNK // 8:
        parts = [_COUNT.pack(len(ranges)), *(_RANGE.pack(start, count) for start, count in ranges)]
    else:
        bits = 0
        for start, count in ranges:
            bits |= ((1 << count) - 1) << start
        parts = [_COUNT.pack(_BITMAP), bits.to_bytes(_CHUNK // 8, "little")]
    returned = [offset for offset in lane.counts if offset >> CHUNK_BITS == chunk] if lane.counts else []
    parts += [_RETURNED.pack(offset - first, lane.counts[offset], lane.resting.get(offset, 0)) for offset in sorted(returned)]
    return b"".join(parts) if ranges or returned else b""


class _Found:
    """The rows of one lane."""

    def __init__(self) -> None:
        self.floor = 0
        self.mark = 0
        self.chunks: set[int] = set()
        self.settled: list[tuple[int, int]] = []
        self.counts: dict[int, int] = {}
        self.resting: dict[int, int] = {}

    def read_chunk(self, chunk: int, row: bytes) -> None:
        self.chunks.add(chunk)
        first = chunk << CHUNK_BITS
        (count,) = _COUNT.unpack_from(row)
        position = _COUNT.size
        if count == _BITMAP:
            bits = int.from_bytes(row[position : position + _CHUNK // 8], "little")
            position += _CHUNK // 8
            self.settled += [(first + place, first + place + 1) for place in range(_CHUNK) if bits >> place & 1]
        else:
            for _ in range(count):
                start, length = _RANGE.unpack_from(row, position)
                position += _RANGE.size
                self.settled.append((first + start, first + start + length))
        for place, times, until_ms in _RETURNED.iter_unpack(row[position:]):
            self.counts[first + place] = times
            if until_ms:
                self.resting[first + place] = until_ms
