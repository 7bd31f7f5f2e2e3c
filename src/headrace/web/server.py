"""The web server: accepts connections, counts them, looks at every one of them once a second, and stops.

Handlers run in the event loop that called `start`. While nobody is connected nothing runs: the look begins with the first
connection and ends with the last. What it keeps for everybody is the time of the look (`now`) and the header with the date.

Bounds are in `limits`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time

from headrace.web.answer_head import date
from headrace.web.connection import Connection
from headrace.web.exchange import Handler
from headrace.web.first_bytes import FirstBytes
from headrace.web.limits import Limits
from headrace.web.refusals import Refusals

logger = logging.getLogger("headrace.web")

BACKLOG = 1024
LOOK_S = 1.0

_REAP_S = 0.05


class WebServer:
    def __init__(self, handler: Handler, limits: Limits | None = None) -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.refusals = Refusals()
        self.stopping = False
        self.now = 0.0  # as of the last look: exact enough for whoever counts in seconds
        self.date = b""
        self.date_line = b""
        self.connections_total = 0
        self.turned_away_total = 0  # because `connections` of them were open
        self.collecting_bytes = 0
        self.queued_bytes = 0  # with streams of HTTP/2
        self.patience_s = self.limits.stalled_s  # with peers that do not read
        self.idle_s = self.limits.idle_s
        self.silent_s = self.limits.head_s  # with connections that have not said anything
        self.blocked: set[Connection] = set()  # their transports take nothing more
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._left: asyncio.Future[None] | None = None

    async def start(self, listening: socket.socket, backlog: int = BACKLOG) -> None:
        """Serves what connects to this socket (which is closed by `stop`)."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=listening, backlog=backlog)

    def _connection(self) -> FirstBytes:
        return FirstBytes(self)

    async def stop(self, within_s: float) -> None:
        """Accepts nobody any more, lets what is under way end, and cuts what has not ended in time."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.shut_down()
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        while self._connections and loop.time() < until:
            await self._somebody_left(until - loop.time())
        for connection in tuple(self._connections):
            connection.cut()
        while self._connections:  # they are told in the next turns of the event loop
            await self._somebody_left(_REAP_S)
        if self._looking is not None:
            self._looking.cancel()

    async def _somebody_left(self, within_s: float) -> None:
        """Connections that went to another protocol don't tell, so they are looked at."""
        self._left = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._left,), timeout=min(within_s, _REAP_S))
        for connection in tuple(self._connections):
            if connection.upgraded and connection.transport.is_closing():
                self.forget(connection)

    # --- who is connected

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    @property
    def refused_total(self) -> int:
        """Connections that were closed because of what the peer did, or because there were too many."""
        return self.refusals.total + self.turned_away_total

    def connections(self) -> tuple[Connection, ...]:
        """Each with `peer`, `protocol_name`, `opened_s`, `requests`, `under_way`, and a way to `cut` it."""
        return tuple(self._connections)

    def has_room(self) -> bool:
        """For one more connection, which calls `keep` then."""
        if self._looking is None:
            self._tell_time()
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        if len(self._connections) < self.limits.connections and not self.stopping:
            return True
        self.turned_away_total += 1
        return False

    def keep(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.connections_total += 1

    def hold(self, change: int) -> bool:
        """So many bytes of unfinished bodies more, or fewer, are held. False if that is too much."""
        self.collecting_bytes += change
        return self.collecting_bytes <= self.limits.collecting_bytes

    @property
    def unsent_bytes(self) -> int:
        """What was answered and waits for peers to read it, the send buffers of the kernel and small amounts not counted."""
        return self.queued_bytes + sum(connection.transport.get_write_buffer_size() for connection in self.blocked)

    def can_send(self, size: int) -> bool:
        return self.unsent_bytes + size <= self.limits.unsent_total_bytes

    def replace(self, connection: Connection, by: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._connections.add(by)

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.blocked.discard(connection)
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    # --- time

    def _look(self) -> None:
        self._looking = None
        self._tell_time()
        self._have_patience()
        for connection in tuple(self._connections):
            try:
                connection.tick(self.now)
            except Exception:
                logger.exception("looking at the connection of %s failed; it is cut", connection.peer)
                connection.cut()
        if self._connections:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _have_patience(self) -> None:
        """Less of it while places, or memory for answers, are scarce."""
        limits = self.limits
        self.patience_s = limits.stalled_s if self.can_send(0) else min(limits.stalled_s, limits.crowded_s)
        crowded = len(self._connections) * 10 > limits.connections * 9
        self.idle_s = min(limits.idle_s, limits.crowded_idle_s) if crowded else limits.idle_s
        self.silent_s = min(limits.head_s, limits.crowded_idle_s) if crowded else limits.head_s

    def _tell_time(self) -> None:
        self.now = asyncio.get_running_loop().time()
        self.date = date(time.time())
        self.date_line = b"date: " + self.date + b"\r\n"
