"""One timer for everything that waits for a time: a heap, and the clock set for what is due first.

An owner has at most one alarm; setting it again replaces it. Bound: one entry for each owner, and those that were replaced and
are not due yet, which are swept when they are more than the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.clock import Clock, Timer

_SWEEP_FROM = 1000


class Alarms:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order = count()
        self._heap: list[tuple[float, int, Hashable]] = []
        self._set: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._timer: Timer | None = None
        self._timer_due = 0.0

    def __len__(self) -> int:
        return len(self._set)

    def set(self, owner: Hashable, delay_s: float, ring: Callable[[], None]) -> None:
        number = next(self._order)
        self._set[owner] = (number, ring)
        heapq.heappush(self._heap, (self._clock.monotonic() + max(0.0, delay_s), number, owner))
        if len(self._heap) > _SWEEP_FROM and len(self._heap) > 2 * len(self._set):
            self._heap = [entry for entry in self._heap if self._is_set(entry)]
            heapq.heapify(self._heap)
        self._arm()

    def cancel(self, owner: Hashable) -> None:
        self._set.pop(owner, None)
        if not self._set:
            self._heap.clear()
            self._arm()

    def _is_set(self, entry: tuple[float, int, Hashable]) -> bool:
        current = self._set.get(entry[2])
        return current is not None and current[0] == entry[1]

    def _arm(self) -> None:
        heap = self._heap
        while heap and not self._is_set(heap[0]):
            heapq.heappop(heap)
        if self._timer is not None:
            if heap and self._timer_due == heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
        if heap:
            self._timer_due = heap[0][0]
            self._timer = self._clock.call_later(self._timer_due - self._clock.monotonic(), self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._clock.monotonic() + 1e-6
        ringing = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._is_set(entry):
                ringing.append(self._set.pop(entry[2])[1])
        self._arm()
        for ring in ringing:
            ring()
