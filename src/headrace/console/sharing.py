"""Answers that several pages share. Nothing of NiceGUI is here.

Ten windows that show the same list ask the server once: who looks again within `FRESH_S`, or while the same question is under
way, gets the same answer. Only what pages look at by themselves is shared (`Look.shares`); whoever opens a page or presses a
button is answered by the server. A change that leaves this process forgets everything.

Questions that are shared go to the server `AT_ONCE` at a time: a hundred open pages are a queue here, and not a burst there.

A `Look` also knows whether it has found anything new, so that pages on which nothing happens are looked at less often.

Bounds: `MOST_ANSWERS` are kept, each with at most `MOST_BYTES`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar

FRESH_S = 0.9
AT_ONCE = 2
MOST_ANSWERS = 100
MOST_BYTES = 128 * 1024

LOOKING: ContextVar[Look | None] = ContextVar("LOOKING", default=None)


class Look:
    """One look of a page at what it shows: all that it asks the server meanwhile."""

    __slots__ = ("answers", "shares")

    def __init__(self, *, shares: bool) -> None:
        self.shares = shares
        self.answers: list[int] = []

    def found(self, content: bytes) -> None:
        self.answers.append(hash(content))


class Answers:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: OrderedDict[Hashable, tuple[float, bytes]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Task[bytes]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """Raises what `ask` raises."""
        kept = self._kept.get(question)
        if kept is not None and self._now() - kept[0] < FRESH_S:
            return kept[1]
        task = self._asked.get(question)
        if task is None:
            task = self._asked[question] = asyncio.get_running_loop().create_task(self._ask(question, ask))
            task.add_done_callback(_heard)
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Something has changed: what was asked before says nothing."""
        self._kept.clear()
        self._asked.clear()

    async def _ask(self, question: Hashable, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        mine = asyncio.current_task()
        try:
            async with self._gate:
                content = await ask()
            if self._asked.get(question) is mine and len(content) <= MOST_BYTES:
                self._kept[question] = self._now(), content
                self._kept.move_to_end(question)
                while len(self._kept) > MOST_ANSWERS:
                    self._kept.popitem(last=False)
            return content
        finally:
            if self._asked.get(question) is mine:
                del self._asked[question]


def _heard(task: asyncio.Task[bytes]) -> None:
    """Whoever asked may be gone when it fails."""
    if not task.cancelled():
        task.exception()
