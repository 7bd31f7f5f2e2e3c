"""The sizes of a lane's bodies, kept only where a limit in bytes needs them. What came before the limit was set, or before the
last start, counts as nothing until it is gone."""

from __future__ import annotations

from collections.abc import Iterable


class BodySizes:
    __slots__ = ("_by_offset", "ready_bytes")

    def __init__(self) -> None:
        self._by_offset: dict[int, int] = {}
        self.ready_bytes = 0

    def added(self, base: int, sizes: Iterable[int]) -> None:
        for offset, size in enumerate(sizes, base):
            self._by_offset[offset] = size
            self.ready_bytes += size

    def taken(self, first: int, count: int) -> None:
        self.ready_bytes -= sum(self._by_offset.get(offset, 0) for offset in range(first, first + count))

    def given_back(self, first: int, count: int) -> None:
        self.ready_bytes += sum(self._by_offset.get(offset, 0) for offset in range(first, first + count))

    def gone(self, first: int, count: int) -> None:
        for offset in range(first, first + count):
            self._by_offset.pop(offset, None)
