"""A walk over something long, a little at a time, for answers that are asked for again and again.

The first look goes to the end, in steps between which others have their turn. From then on a look goes on for `BUDGET_S` and
answers with what the last whole walk found, so with ten thousand topics it costs no more than with a hundred, and tells what
was true some seconds ago. A walk that fits into the budget is always of now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")

BUDGET_S = 0.001


class Walk(Generic[T]):
    """`begin` begins one: it yields None after each step, and what it has found at the end."""

    def __init__(self, begin: Callable[[], AsyncIterator[T | None]], budget_s: float = BUDGET_S) -> None:
        self._begin = begin
        self._budget_s = budget_s
        self._walking: AsyncIterator[T | None] | None = None
        self._found: T | None = None

    async def look(self) -> T:
        until = perf_counter() + self._budget_s
        if self._walking is None:
            self._walking = self._begin()
        while True:
            found = await anext(self._walking)
            if found is not None:
                self._walking, self._found = None, found
                return found
            if perf_counter() >= until:
                if self._found is not None:
                    return self._found
                await asyncio.sleep(0)
                until = perf_counter() + self._budget_s
