"""Keeps positions from expiring: those of routes that are paused or have nothing to do.

A group's offsets are forgotten after `offsets.retention.minutes`. Four times in that time, and at least once an hour, positions
that were not committed since the last look are committed once more, one route after another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import RouteError

if TYPE_CHECKING:
    from headrace.broker.routes.route import Route
    from headrace.broker.settings import Settings
    from headrace.clock import Clock, Timer

logger = logging.getLogger("headrace.routes")

LONGEST_REFRESH_S = 3600.0


class Refreshing:
    def __init__(self, routes: Iterable[Route], clock: Clock, settings: Settings) -> None:
        self._routes = routes
        self._clock = clock
        self._settings = settings
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        retention_s = self._settings.get_int("offsets.retention.minutes") * 60
        every_s = min(LONGEST_REFRESH_S, retention_s / 4)
        self._timer = self._clock.call_later(every_s, self.begin)
        if self._task is None or self._task.done():
            before_ms = self._clock.now_ms() - round(every_s * 1000)
            self._task = asyncio.get_running_loop().create_task(self._refresh(before_ms))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def _refresh(self, before_ms: int) -> None:
        for route in self._routes:
            topic = route.topic
            if topic is not None and not route.definition.inbound:
                try:
                    await route.positions.refresh(topic, before_ms)
                    if route.replay is not None:
                        await route.replay.positions.refresh(topic, before_ms)
                except RouteError as error:
                    logger.warning("route '%s': %s", route.definition.name, error)
