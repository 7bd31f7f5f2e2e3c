"""How late the event loop comes to what is due: the first sign that something holds it up.

Every `EVERY_S` a timer is set, and how much later than that it rings is noted. It costs a few microseconds a second.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from headrace.times import Times

EVERY_S = 0.1


class LoopWatch:
    def __init__(self, delays: Times) -> None:
        self._delays = delays
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._set()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        self._due = monotonic() + EVERY_S
        self._timer = self._loop.call_later(EVERY_S, self._rang)

    def _rang(self) -> None:
        self._delays.add(max(0.0, monotonic() - self._due))
        self._set()
