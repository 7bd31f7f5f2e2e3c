"""Sets of offsets kept as ranges: what was acknowledged, what was given back.

Consumers settle mostly in order, so a set of millions is a handful of ranges. Ranges are half-open, sorted, and never touch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    __slots__ = ("_ends", "_starts", "count")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def __contains__(self, offset: int) -> bool:
        return self.end_of(offset) > offset

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def first(self) -> int:
        return self._starts[0]

    @property
    def pieces(self) -> int:
        return len(self._starts)

    def end_of(self, offset: int) -> int:
        """The end of the range that holds the offset; the offset itself when none does."""
        found = bisect_right(self._starts, offset) - 1
        return self._ends[found] if found >= 0 and self._ends[found] > offset else offset

    def next_start(self, offset: int, otherwise: int) -> int:
        """Where the first range that begins at or behind the offset begins."""
        found = bisect_left(self._starts, offset)
        return self._starts[found] if found < len(self._starts) else otherwise

    def add(self, first: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        if not starts or first > ends[-1]:
            starts.append(first)
            ends.append(end)
            self.count += end - first
            return
        low = bisect_left(ends, first)  # the first range that ends at or behind `first`: it touches, or comes later
        high = bisect_right(starts, end)
        if low < high:
            first, end = min(first, starts[low]), max(end, ends[high - 1])
            self.count -= sum(ends[low:high]) - sum(starts[low:high])
        starts[low:high] = [first]
        ends[low:high] = [end]
        self.count += end - first

    def remove(self, first: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        low = bisect_right(ends, first)
        high = bisect_left(starts, end)
        if low >= high:
            return
        self.count -= sum(ends[low:high]) - sum(starts[low:high])
        before, after = (starts[low], first), (end, ends[high - 1])
        kept = [piece for piece in (before, after) if piece[0] < piece[1]]
        self.count += sum(piece[1] - piece[0] for piece in kept)
        starts[low:high] = [piece[0] for piece in kept]
        ends[low:high] = [piece[1] for piece in kept]

    def within(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the set between two offsets."""
        starts, ends = self._starts, self._ends
        for number in range(bisect_right(ends, first), bisect_left(starts, end)):
            yield max(first, starts[number]), min(end, ends[number])

    def clear(self) -> None:
        self._starts.clear()
        self._ends.clear()
        self.count = 0
