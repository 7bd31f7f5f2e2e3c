"""A walk over something long, a little at a time, for answers that are asked for again and again.

It goes on for `TURN_S` at a time, and then leaves the server to others for `PAUSE_S`. The first look goes to the end. From then
on a look takes some `turns` and answers with what the last whole walk found, so with ten thousand topics it costs no more than
with a hundred, and tells what was true some seconds ago. A walk that fits into the turns of a look is always of now. Who looks
while another look is under way waits for that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from headrace.short_turns import TURN_S, ShortTurns

T = TypeVar("T")

PAUSE_S = 0.001
TURNS = 8


class Walk(Generic[T]):
    """`begin` begins one: it yields None after each step, and what it has found at the end."""

    def __init__(self, begin: Callable[[], AsyncIterator[T | None]], turn_s: float = TURN_S, turns: int = TURNS) -> None:
        self._begin = begin
        self._turn_s = turn_s
        self._turns = turns
        self._looking = asyncio.Lock()
        self._walking: AsyncIterator[T | None] | None = None
        self._found: T | None = None

    async def look(self) -> T:
        async with self._looking:
            try:
                return await self._look()
            except BaseException:  # who looked has gone: the next one begins anew
                self._walking = None
                raise

    async def _look(self) -> T:
        turns, left = ShortTurns(self._turn_s, PAUSE_S), self._turns
        if self._walking is None:
            self._walking = self._begin()
        while True:
            found = await anext(self._walking)
            if found is not None:
                self._walking, self._found = None, found
                return found
            if turns.over:
                left -= 1
                if self._found is not None and left <= 0:
                    return self._found
                await turns.rest()
