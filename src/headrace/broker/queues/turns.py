"""One turn of the event loop for all queues: what came in during it is handed out once at its end, and each connection that
got something is written to once.

Small runs for the same queue gather in it (`Queue.publish`) and are appended together: at the end of the turn, or as soon as
somebody wants to know when they are durable. So whoever waits for a sync of what went to queues asks here, not the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.clock import Clock
    from headrace.log.port import Log, Synced

logger = logging.getLogger("headrace.queues")


class Pumped(Protocol):
    def pump(self) -> None: ...


class Gathering(Protocol):
    def take_in(self) -> None:
        """Appends what has gathered; raises LogError."""
        ...


class Flushed(Protocol):
    def flush(self) -> None: ...


class Turns:
    def __init__(self, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._gathering: dict[Gathering, None] = {}
        self._queues: dict[Pumped, None] = {}
        self._connections: dict[Flushed, None] = {}
        self._scheduled = False

    def wake(self, queue: Pumped) -> None:
        """It may have something to hand out."""
        self._queues[queue] = None
        if not self._scheduled:
            self._schedule()

    def flush_later(self, connection: Flushed) -> None:
        """It has something to send."""
        self._connections[connection] = None
        if not self._scheduled:
            self._schedule()

    def gathers(self, queue: Gathering) -> None:
        """It has runs that are not in its log yet."""
        self._gathering[queue] = None

    def after_sync(self, synced: Synced) -> None:
        """`Log.after_sync`, for everything that was published so far."""
        error = self._take_in() if self._gathering else None
        if error is None:
            self._log.after_sync(synced)
        else:
            synced(error)

    async def synced(self) -> None:
        error = self._take_in() if self._gathering else None
        if error is not None:
            raise error
        await self._log.synced()

    def close(self) -> None:
        """The server stops: what has gathered still goes to the log."""
        self._take_in()

    def _take_in(self) -> LogError | None:
        gathering, self._gathering = self._gathering, {}
        failed = None
        for queue in gathering:
            try:
                queue.take_in()
            except LogError as error:  # of those who wait nobody is told that it is durable
                failed = error
        if failed is not None:
            logger.error("messages that nobody has confirmed are lost: %s", failed)
        return failed

    def _schedule(self) -> None:
        self._scheduled = True
        self._clock.call_later(0, self._turn)

    def _turn(self) -> None:
        if self._gathering:
            self._take_in()
        queues, self._queues = self._queues, {}
        for queue in queues:
            try:
                queue.pump()
            except Exception:  # one queue's trouble must not become everybody's
                logger.exception("a queue failed to hand out its messages")
        connections, self._connections = self._connections, {}
        for connection in connections:
            connection.flush()
        self._scheduled = False
        if self._queues or self._connections:
            self._schedule()
