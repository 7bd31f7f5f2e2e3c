"""What was read of a partition and is not settled yet, and how far everything is.

An event is settled when it was delivered or given up, or when a durable row says that it must be tried again. Below the floor
everything is settled: that is the position which may be committed. Events are settled in any order; those above the floor are
remembered, so that a partition which is read again from an earlier place, because memory was given back, brings none of them
twice.

Bounds: as many outstanding events as the route may have, and as many settled ones above the floor as were read since.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.broker.routes.cursor import Cursor


class Window:
    """Of one partition; `cursor` is where it is read."""

    __slots__ = ("_outstanding", "_prune_at", "_settled", "committed", "cursor")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.committed = cursor.offset  # what the position is, or will be when a commit under way has ended
        self._outstanding: dict[int, None] = {}
        self._settled: set[int] = set()
        self._prune_at = 64

    @property
    def partition(self) -> int:
        return self.cursor.partition.index

    def __len__(self) -> int:
        return len(self._outstanding)

    @property
    def floor(self) -> int:
        return min(min(self._outstanding, default=self.cursor.offset), self.cursor.offset)

    @property
    def ahead(self) -> int:
        """About how many are settled above the floor."""
        return len(self._settled)

    def knows(self, offset: int) -> bool:
        return offset in self._outstanding or offset in self._settled

    def is_outstanding(self, offset: int) -> bool:
        return offset in self._outstanding

    def add(self, offset: int) -> None:
        self._outstanding[offset] = None

    def settle(self, offset: int) -> None:
        first = next(iter(self._outstanding), None) == offset
        self._outstanding.pop(offset, None)
        self._settled.add(offset)
        if first and len(self._settled) > 64:
            self._prune()  # the floor may have moved
        if len(self._settled) >= self._prune_at:
            self._prune()

    def give_back(self, offsets: Iterable[int]) -> None:
        """These are read again later."""
        for offset in offsets:
            self._outstanding.pop(offset, None)
            self.cursor.offset = min(self.cursor.offset, offset)

    def _prune(self) -> None:
        floor = self.floor
        self._settled = {offset for offset in self._settled if offset >= floor}
        self._prune_at = max(64, 2 * len(self._settled))
