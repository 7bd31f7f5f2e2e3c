"""Events that must not overtake each other: those of one key, or of one partition.

A lane is a partition and a digest of the key. One event of a lane is under way at a time. Those behind it wait in memory, as a
part of the route's window. When one fails and gets a row, those behind it in memory are given back or get rows too, and so does
whatever is read of that lane until the rows are gone: they are sent one after another, by their offsets.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import deque
from typing import Generic, TypeVar

Lane = tuple[int, bytes]
T = TypeVar("T")

WHOLE_PARTITION = b""


def lane_of(order: str, partition: int, key: bytes | None) -> bytes | None:
    """None for an event that may overtake all others, as one without a key may."""
    if order == "partition":
        return WHOLE_PARTITION
    if order == "key" and key is not None:
        return hashlib.blake2b(key, digest_size=16).digest()
    return None


class Lanes(Generic[T]):
    """Of one route; T is what waits in memory."""

    def __init__(self) -> None:
        self._behind: dict[Lane, deque[T]] = {}  # behind one that is under way, or about to be
        self._rows: dict[Lane, list[int]] = {}  # offsets, in order

    # --- in memory

    def enter(self, lane: Lane, one: T) -> bool:
        """Whether it may go now; otherwise it waits."""
        behind = self._behind.get(lane)
        if behind is not None:
            behind.append(one)
            return False
        self._behind[lane] = deque()
        return True

    def leave(self, lane: Lane) -> T | None:
        """The one that was under way has ended. The next one, if there is one."""
        behind = self._behind.get(lane)
        if behind:
            return behind.popleft()
        self._behind.pop(lane, None)
        return None

    def clear(self, lane: Lane) -> list[T]:
        """Nothing of it is in memory any more: those that waited."""
        return list(self._behind.pop(lane, ()))

    def is_busy(self, lane: Lane) -> bool:
        return lane in self._behind

    # --- rows

    def has_rows(self, lane: Lane) -> bool:
        return lane in self._rows

    def knows_row(self, lane: Lane, offset: int) -> bool:
        offsets = self._rows.get(lane, [])
        place = bisect_left(offsets, offset)
        return place < len(offsets) and offsets[place] == offset

    def add_row(self, lane: Lane, offset: int) -> None:
        insort(self._rows.setdefault(lane, []), offset)

    def first_row(self, lane: Lane) -> int | None:
        offsets = self._rows.get(lane)
        return offsets[0] if offsets else None

    def remove_row(self, lane: Lane, offset: int) -> None:
        if self.knows_row(lane, offset):
            offsets = self._rows[lane]
            del offsets[bisect_left(offsets, offset)]
            if not offsets:
                del self._rows[lane]
