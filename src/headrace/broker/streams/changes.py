"""Those who wait for the next change of something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger("headrace.streams")


class Changes:
    """`wait` returns at the next `tell`; what was told before is past."""

    __slots__ = ("_waiting", "_watching")

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._watching: set[Callable[[], None]] = set()

    async def wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    def watch(self, changed: Callable[[], None]) -> None:
        """Calls `changed` at every `tell`, until `unwatch`. It must only note that there is something to look at."""
        self._watching.add(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._watching.discard(changed)

    def tell(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        for changed in tuple(self._watching):
            try:
                changed()
            except Exception:  # neither what changed nor the others who watch may suffer from it
                logger.exception("somebody who watches a stream failed")
