"""The end of a route that brings a feed into a topic: events in order, each once, and gaps counted.

The socket is read as datagrams come, `MAX_DATAGRAMS` at a time, and what they bring is one append. While the log takes nothing
the socket is not read: what its buffer does not hold is lost, and counted as that. A gap is waited for as the source says
(`window`, `reorder_ms`) and then passed over: nobody is asked for what was lost. What was sent from the very topic that it
would go into is ignored: it would come round for ever.

Bounds: `window` datagrams held for each stream; the events of one round that wait for the log.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import RouteError
from headrace.broker.routes.ports import MAX_PUT
from headrace.log.errors import LogError
from headrace.multicast.feed.ordering import Records
from headrace.multicast.feed.reception import Reception
from headrace.multicast.feed.sockets import Group, receiving_socket

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.ends.multicast import FeedSource
    from headrace.broker.routes.filling import Entry
    from headrace.broker.routes.ports import Inlet, Surroundings
    from headrace.clock import Timer

logger = logging.getLogger("headrace.multicast")

MAX_DATAGRAMS = 64
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
TELL_EVERY_S = 10.0  # of gaps
_BUFFER_BYTES = 65_536


class FeedIntake:
    """`own` is the session of the feed that the topic itself may be sent as."""

    def __init__(
        self, definition: RouteDefinition, source: FeedSource, inlet: Inlet, surroundings: Surroundings, own: int | None = None
    ) -> None:
        self.error: str | None = None
        self._route = definition.name
        self._inlet = inlet
        self._log = surroundings.log
        self._clock = surroundings.clock
        self._reception = Reception(
            [definition.topic if source.feed is None else source.feed],
            secret=None if source.secret is None else source.secret.encode(),
            window=source.window,
            reorder_s=source.reorder_ms / 1000,
            ignored=() if own is None else (own,),
        )
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._waiting: list[Entry] = []  # for the log
        self._pausing: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._told_at = -TELL_EVERY_S
        self._closed = False
        self._socket = receiving_socket(Group(source.group, source.port, source.interface), sender=source.sender)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._readable)

    # --- what a route does

    def grown(self) -> None:
        """Partitions are picked by key, whatever stream an event came by."""

    async def stop(self) -> None:
        """What has come in is put into the topic, as far as it takes it now."""
        if not self._closed and self._pausing is None:
            self._readable()
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._pausing is not None:
            self._pausing.cancel()

    def facts(self) -> dict[str, object]:
        """What is shown with the route."""
        return asdict(self._reception.counts)

    # --- datagrams

    def _readable(self) -> None:
        reception = self._reception
        receive, buffer = self._socket.recv_into, self._buffer
        now = self._clock.monotonic()
        for _ in range(MAX_DATAGRAMS):
            try:
                size = receive(buffer)
            except OSError:  # there is no more; or an interface went away, and the next datagram will come when it is back
                break
            taken = reception.take(buffer[:size], now)
            if taken is not None and taken[1]:
                self._gather(taken[1])
        if reception.lacking:
            self._look_at_gaps(now)
        self._put()

    def _gather(self, records: Records) -> None:
        self._waiting += [(key, value, headers, when) for _, when, key, value, headers in records]

    def _look_at_gaps(self, now: float) -> None:
        counts = self._reception.counts
        for stream in self._reception.due(now):
            missing = stream.missing()
            if missing is not None:
                counts.gaps += 1
                self._gather(stream.skip(missing[1]))
                self._reception.settled(stream)
                if now - self._told_at >= TELL_EVERY_S:
                    self._told_at = now
                    logger.warning(
                        "route '%s': %d sequences of feed '%s' did not arrive, up to %d; %d in all",
                        self._route, missing[1] - missing[0], stream.feed, missing[1], counts.lost,
                    )  # fmt: skip
        due = self._reception.due_at()
        if due is not None and self._timer is None:
            self._timer = self._clock.call_later(max(0.0, due - now), self._due)

    def _due(self) -> None:
        self._timer = None
        self._look_at_gaps(self._clock.monotonic())
        if self._pausing is None:
            self._put()

    # --- the log

    def _put(self) -> None:
        if self._waiting and self._log.backlogged:
            self._pause()
            return
        try:
            while self._waiting:  # a gap may have held up more than one call takes
                self._inlet.put_entries(self._waiting[:MAX_PUT])
                del self._waiting[:MAX_PUT]
        except (LogError, RouteError) as error:
            if self.error is None:
                logger.warning("route '%s' can't put in what came: %s", self._route, error)
            self.error = str(error)
            self._pause()

    def _pause(self) -> None:
        """Reads nothing more until what waits is in the log."""
        if not self._closed and self._pausing is None:
            self._loop.remove_reader(self._socket.fileno())
            self._pausing = self._loop.create_task(self._go_on())

    async def _go_on(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self._waiting:
            try:
                await self._inlet.room()
                self._inlet.put_entries(self._waiting[:MAX_PUT])
                del self._waiting[:MAX_PUT]
            except (LogError, RouteError) as error:
                self.error = str(error)
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
        self.error = None
        self._pausing = None
        self._loop.add_reader(self._socket.fileno(), self._readable)
