"""Long work on the event loop, in short turns, between which everybody else has one: whoever goes through a thousand things
asks after each whether its turn is `over`, and if so rests."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_S = 0.0001  # about what a request takes that comes in meanwhile


class ShortTurns:
    __slots__ = ("_pause_s", "_turn_s", "_until")

    def __init__(self, turn_s: float = TURN_S, pause_s: float = 0.0) -> None:
        self._turn_s = turn_s
        self._pause_s = pause_s
        self._until = perf_counter() + turn_s

    @property
    def over(self) -> bool:
        return perf_counter() >= self._until

    async def rest(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._until = perf_counter() + self._turn_s
