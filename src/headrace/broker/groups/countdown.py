"""A deadline that is pushed back far more often than it is reached, such as a member's session.

Pushing it back only notes the new time: the timer that is already set finds out when it fires, and sets itself again
for the rest. A heartbeat therefore costs one addition, not a timer.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.clock import Clock, Timer

# Event loops round timers to their own grain and may fire a moment early.
GRAIN_S = 0.001


class Countdown:
    __slots__ = ("_clock", "_deadline", "_fires_at", "_reached", "_timer")

    def __init__(self, clock: Clock, reached: Callable[[], None]) -> None:
        self._clock = clock
        self._reached = reached
        self._deadline: float | None = None
        self._timer: Timer | None = None
        self._fires_at = 0.0

    @property
    def running(self) -> bool:
        return self._deadline is not None

    def restart(self, delay_ms: int) -> None:
        """Runs out `delay_ms` from now, whatever was set before."""
        delay_s = max(delay_ms, 0) / 1000
        self._deadline = self._clock.monotonic() + delay_s
        if self._timer is not None:
            if self._fires_at <= self._deadline:
                return
            self._timer.cancel()
        self._set(delay_s)

    def stop(self) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, delay_s: float) -> None:
        self._fires_at = self._clock.monotonic() + delay_s
        self._timer = self._clock.call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        left_s = self._deadline - self._clock.monotonic()
        if left_s > GRAIN_S:
            self._set(left_s)
            return
        self._deadline = None
        self._reached()
