"""A queue that nobody uses: no consumers, no get, no declaration for `x-expires` milliseconds, and it is to be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue
    from headrace.clock import Clock, Timer


class Disuse:
    def __init__(self, queue: Queue, clock: Clock, unused: Callable[[Queue], None]) -> None:
        self._queue = queue
        self._clock = clock
        self._unused = unused
        self._timer: Timer | None = None
        self._used_at = clock.monotonic()

    def used(self) -> None:
        self._used_at = self._clock.monotonic()
        self.watch()

    def watch(self) -> None:
        expires_ms = self._queue.settings.expires_ms
        if expires_ms is not None and self._timer is None:
            self._timer = self._clock.call_later(expires_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        expires_ms = self._queue.settings.expires_ms
        if expires_ms is None or self._queue.deleted:
            return
        left_s = self._used_at + expires_ms / 1000 - self._clock.monotonic()
        if self._queue.consumers:
            self.watch()
        elif left_s > 0:
            self._timer = self._clock.call_later(left_s + 0.001, self._look)
        else:
            self._unused(self._queue)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
