"""Time as it is passed in: the wall clock for timestamps, a steady one for deadlines, and timers on it.

The server uses `SystemClock`; tests use `headrace.testing.clock.SimulatedClock`, which moves only when told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps that people and clients see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The machine's clocks and the running event loop's timers."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)
