"""A run that is opened, and opened again later where that fails: an address that is taken, a disk that is full.

The first try is at once. Each further one comes later than the one before, after `LONGEST_PAUSE_S` at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from headrace.broker.routes.cursor import FIRST_PAUSE_S, LONGEST_PAUSE_S
from headrace.broker.routes.errors import RouteError
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Run
    from headrace.clock import Clock, Timer

logger = logging.getLogger("headrace.routes")

Open = Callable[[], "Run | Awaitable[Run]"]


class Opening:
    def __init__(self, route: str, open_run: Open, clock: Clock) -> None:
        self.run: Run | None = None
        self._route = route
        self._open = open_run
        self._clock = clock
        self._error: str | None = None
        self._pause_s = FIRST_PAUSE_S / 2
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._try()

    @property
    def error(self) -> str | None:
        return self._error if self.run is None else self.run.error

    def grown(self) -> None:
        if self.run is not None:
            self.run.grown()

    async def stop(self) -> None:
        """What was opened is stopped in order."""
        self._give_up()
        if self.run is not None:
            await self.run.stop()

    def close(self) -> None:
        """At once."""
        self._give_up()
        if self.run is not None:
            self.run.close()

    def _give_up(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _try(self) -> None:
        self._timer = None
        try:
            made = self._open()
        except Exception as error:
            self._failed(error)
            return
        if isinstance(made, Awaitable):
            self._task = asyncio.get_running_loop().create_task(self._finish(made))
        else:
            self._opened(made)

    async def _finish(self, opening: Awaitable[Run]) -> None:
        try:
            run = await opening
        except Exception as error:
            self._failed(error)
            return
        self._opened(run)

    def _opened(self, run: Run) -> None:
        if self._closed:
            run.close()
            return
        self.run = run
        self._error = None

    def _failed(self, error: Exception) -> None:
        if self._closed:
            return
        why = str(error) or type(error).__name__
        if not isinstance(error, LogError | RouteError | OSError):  # a mistake of ours
            logger.error("route '%s'", self._route, exc_info=error)
            why = f"an error of the server's own: {type(error).__name__}; see its log"
        self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        if why != self._error:  # once for each reason
            logger.warning("route '%s' can't begin, and tries again in %.1f s: %s", self._route, self._pause_s, why)
        self._error = why
        self._timer = self._clock.call_later(self._pause_s, self._try)
