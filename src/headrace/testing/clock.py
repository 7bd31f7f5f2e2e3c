"""A clock that moves only when told, for tests of anything that waits.

`advance` runs the timers that fall due, in their order, and each of them sees the time it was set for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

START_MS = 1_700_000_000_000


class SimulatedTimer:
    """A callback at a time; `cancel` makes it never happen."""

    __slots__ = ("callback", "cancelled", "due")

    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SimulatedClock:
    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_s = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, SimulatedTimer]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic(self) -> float:
        return self._elapsed_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> SimulatedTimer:
        timer = SimulatedTimer(self._elapsed_s + max(delay_s, 0.0), callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        return timer

    @property
    def next_due_s(self) -> float | None:
        """How long until the next timer; None when nothing is set."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return max(self._timers[0][0] - self._elapsed_s, 0.0) if self._timers else None

    def advance(self, seconds: float) -> None:
        """Moves time on. A callback may set timers; those that fall due within the same span run too."""
        until = self._elapsed_s + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.cancelled:
                continue
            self._elapsed_s = max(self._elapsed_s, due)
            timer.callback()
        self._elapsed_s = until
