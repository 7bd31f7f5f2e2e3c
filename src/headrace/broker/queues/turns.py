"""One turn of the event loop for all queues: what came in during it is handed out once at its end, and each connection that
got something is written to once.

Small runs for the same queue gather in it (`Queue.publish`) and are appended together: at the end of the turn, or as soon as
somebody wants to know when they are durable. So whoever waits for a sync of what went to queues asks here, not the log.

Confirms ask at the end of the turn (`after_turn`): to hand a sync to the kernel takes about as long as to hand out a message,
so consumers, who need not wait for it, come first. What nobody waits for (`at_end`) comes last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.clock import Clock
    from headrace.log.port import Log, Synced

logger = logging.getLogger("headrace.queues")


class Pumped(Protocol):
    def pump(self) -> None: ...


class Gathering(Protocol):
    def append_gathered(self) -> None:
        """Raises LogError."""
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
        self._waiting: list[Synced] = []  # for the end of the turn, and then for the sync
        self._last: list[Callable[[], None]] = []
        self._failed: LogError | None = None  # something that came in this turn is not in the log
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

    def after_sync(self, synced: Synced, *, now: bool = False) -> None:
        """`Log.after_sync`, for everything that was published so far."""
        if self._gathering:
            self._take_in()
        if self._failed is None:
            self._log.after_sync(synced, now=now)
        else:
            synced(self._failed)

    def after_turn(self, synced: Synced) -> None:
        """The same once this turn's deliveries are on their way."""
        self._waiting.append(synced)
        if not self._scheduled:
            self._schedule()

    def at_end(self, work: Callable[[], None]) -> None:
        """Does it when everything else of the turn is done."""
        self._last.append(work)
        if not self._scheduled:
            self._schedule()

    async def synced(self) -> None:
        self._take_in()
        if self._failed is not None:
            raise self._failed
        await self._log.synced()

    def close(self) -> None:
        """The server stops: what has gathered still goes to the log."""
        self._take_in()

    def take_in(self, queue: Gathering) -> None:
        """Has it append what has gathered, now. What can't be is lost, and until the turn ends nobody is told that what
        came in it is durable."""
        self._gathering.pop(queue, None)
        try:
            queue.append_gathered()
        except LogError as error:
            logger.error("messages that nobody has confirmed are lost: %s", error)
            self._failed = error
            if not self._scheduled:
                self._schedule()

    def _take_in(self) -> None:
        for queue in tuple(self._gathering):
            self.take_in(queue)

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
        waiting, self._waiting = self._waiting, []
        for synced in waiting:
            try:
                self.after_sync(synced, now=True)
            except Exception:  # one who waits must not take the others with him
                logger.exception("a callback after a sync failed")
        if self._last:
            last, self._last = self._last, []
            for work in last:
                try:
                    work()
                except Exception:  # nor whoever has something to do at the end
                    logger.exception("what was left for the end of a turn failed")
        self._failed = None
        self._scheduled = False
        if self._queues or self._connections or self._waiting or self._gathering or self._last:
            self._schedule()
