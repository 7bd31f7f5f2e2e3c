"""The sparse index of one segment: one entry for about every `index.interval.bytes` of it.

An entry says: the batch with this base offset begins at this position, and the largest timestamp up to and including that
batch is this. So one array serves look-ups by offset and by time. The file holds entries only, 16 bytes each, big-endian:

    offset relative to the segment's base   4 bytes
    position in the segment                 4 bytes
    largest timestamp so far                8 bytes

It is a hint, never a truth: whoever uses an entry finds a batch header at that position and compares (`segment`). A missing
or wrong file costs a scan.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import le, lt

ENTRY_BYTES = 16
_LOW = 0xFFFF_FFFF


class SparseIndex:
    __slots__ = ("_places", "_timestamps", "saved")

    def __init__(self) -> None:
        self._places = array("Q")  # relative offset << 32 | position, so one search finds both
        self._timestamps = array("q")
        self.saved = 0  # entries that are in the file

    def __len__(self) -> int:
        return len(self._places)

    def add(self, relative_offset: int, position: int, max_timestamp: int) -> None:
        self._places.append(relative_offset << 32 | position)
        self._timestamps.append(max_timestamp)

    def entry(self, number: int) -> tuple[int, int, int]:
        place = self._places[number]
        return place >> 32, place & _LOW, self._timestamps[number]

    def before_offset(self, relative_offset: int) -> tuple[int, int]:
        """Relative offset and position of the last indexed batch that starts at or before this offset."""
        number = bisect_right(self._places, relative_offset << 32 | _LOW) - 1
        if number < 0:
            return 0, 0
        place = self._places[number]
        return place >> 32, place & _LOW

    def before_time(self, timestamp_ms: int) -> tuple[int, int]:
        """Relative offset and position of a batch before which every timestamp is below this one."""
        number = bisect_left(self._timestamps, timestamp_ms) - 1  # they never fall: each is the largest so far
        return self.entry(number)[:2] if number >= 0 else (0, 0)

    def before_position(self, position: int) -> int:
        """The last indexed batch that begins at or before this position."""
        number = bisect_right(self._places, position, key=lambda place: place & _LOW) - 1
        return self._places[number] & _LOW if number >= 0 else 0

    def position_from(self, position: int) -> int | None:
        """The first indexed batch that begins at or behind this position."""
        number = bisect_left(self._places, position, key=lambda place: place & _LOW)
        return self._places[number] & _LOW if number < len(self._places) else None

    def cut(self, size: int) -> None:
        """Forgets entries at or behind this position."""
        while self._places and self._places[-1] & _LOW >= size:
            self._places.pop()
            self._timestamps.pop()
        self.saved = min(self.saved, len(self._places))

    def unsaved(self) -> tuple[int, bytes, int]:
        """Where in the file the new entries go, their bytes, and how many entries the file then has. Another thread may be
        adding one: only what is whole counts."""
        first, end = self.saved, len(self._timestamps)  # `add` appends the timestamp last
        both = array("Q", bytes(ENTRY_BYTES * (end - first)))
        both[0::2] = self._places[first:end]
        both[1::2] = array("Q", self._timestamps[first:end].tobytes())
        if sys.byteorder == "little":
            both.byteswap()
        return first * ENTRY_BYTES, both.tobytes(), end

    @classmethod
    def load(cls, content: bytes) -> SparseIndex:
        both = array("Q")
        both.frombytes(content[: len(content) - len(content) % ENTRY_BYTES])
        if sys.byteorder == "little":
            both.byteswap()
        index = cls()
        index._places = both[0::2]
        index._timestamps = array("q", both[1::2].tobytes())
        index.saved = len(index)
        index._cut_disorder()
        return index

    def _cut_disorder(self) -> None:
        """A crash may have left anything in the file: entries that do not grow end what can be used of it."""
        places, timestamps = self._places, self._timestamps
        if all(map(lt, places, places[1:])) and all(map(le, timestamps, timestamps[1:])):
            return
        good = 1
        while places[good - 1] < places[good] and timestamps[good - 1] <= timestamps[good]:
            good += 1
        del places[good:], timestamps[good:]
