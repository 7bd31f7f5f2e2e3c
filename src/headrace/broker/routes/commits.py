"""Positions that became durable, on their way to being committed: every `COMMIT_EVERY_S`, those of all partitions together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import RouteError
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.routes.cursor import Cursor
    from headrace.broker.routes.positions import Positions
    from headrace.clock import Clock, Timer
    from headrace.log.port import Topic

logger = logging.getLogger("headrace.routes")

COMMIT_EVERY_S = 0.1


class Commits:
    """Of one life of a route. `committed` is called after each that succeeded."""

    def __init__(self, route: str, topic: Topic, clock: Clock, committed: Callable[[], None]) -> None:
        self.error: str | None = None
        self._route = route
        self._topic = topic
        self._clock = clock
        self._committed = committed
        self._durable: dict[Cursor, int] = {}
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, cursor: Cursor, offset: int) -> None:
        """What stands before the offset is dealt with for good."""
        self._durable[cursor] = max(offset, self._durable.get(cursor, 0))
        self._soon()

    def certain(self, cursor: Cursor) -> int:
        """From here on it is not certain that all is dealt with."""
        known = self._durable.get(cursor)
        if known is None:
            known = cursor.positions.get(self._topic, cursor.partition.index)
        return cursor.partition.start_offset if known is None else known

    async def finish(self) -> None:
        """Commits what there is, and nothing later by itself."""
        self._stop_timer()
        if self._task is not None:
            await self._task
        self._closed = True
        await self._commit()

    def close(self) -> None:
        self._closed = True
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _soon(self) -> None:
        if self._timer is None and self._task is None and not self._closed:
            self._timer = self._clock.call_later(COMMIT_EVERY_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._commit())
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._durable:
            self._soon()

    async def _commit(self) -> None:
        taken, self._durable = self._durable, {}
        by_group: dict[Positions, dict[Cursor, int]] = {}
        for cursor, offset in taken.items():
            by_group.setdefault(cursor.positions, {})[cursor] = offset
        for positions, offsets in by_group.items():
            try:
                await positions.commit(self._topic, {cursor.partition.index: offset for cursor, offset in offsets.items()})
            except (LogError, RouteError) as error:
                if self.error is None:
                    logger.warning("route '%s': %s", self._route, error)
                self.error = str(error)
                for cursor, offset in offsets.items():
                    self._durable.setdefault(cursor, offset)
            else:
                self.error = None
                self._committed()
