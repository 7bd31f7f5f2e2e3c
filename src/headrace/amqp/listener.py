"""One AMQP listener: accepts connections, counts them, keeps their heartbeats, and tells publishers to wait when it must.

The code that speaks AMQP is imported with the first connection: a server that nobody talks AMQP to starts without it.

Time goes by in ticks: twice a second every connection is looked at, which sends and checks heartbeats (the shortest is one
second), ends handshakes and closings that take too long, and looks for deliveries that nobody acknowledges.

Publishers wait while `blocked_reason` says why (`alarms`). Only connections that publish stop being read; the others go on.

Bounds: `max.connections` and `max.connections.per.ip` as for Kafka; `BACKLOG` connections that wait to be accepted;
`AUTHENTICATING` that have not logged in yet.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from typing import TYPE_CHECKING

from headrace.amqp.alarms import Alarms
from headrace.amqp.describing import AmqpClients
from headrace.broker.traffic import Traffic

if TYPE_CHECKING:
    from headrace.amqp.connection import AmqpConnection
    from headrace.broker import Broker

logger = logging.getLogger("headrace.amqp")

BACKLOG = 1024
AUTHENTICATING = 1024
READ_BYTES = 256 * 1024
# On loopback a segment may have 64 KB, which stalls a peer with a small window for 200 ms at a time.
SEGMENT_BYTES = 16 * 1024
FRAME_MAX = 131_072
CHANNEL_MAX = 2047
HEARTBEAT_S = 60
TICK_S = 0.5
TIMEOUTS_EVERY_S = 10
_REFUSALS_LOGGED_PER_S = 50


class AmqpListener:
    frame_max = FRAME_MAX
    channel_max = CHANNEL_MAX
    heartbeat_s = HEARTBEAT_S

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.traffic = broker.traffic["amqp"] = Traffic()
        broker.clients.front_ends["amqp"] = AmqpClients(self)
        self.connections: set[AmqpConnection] = set()
        self.authenticating = 0
        self.unfinished_bytes = 0  # of messages that come frame by frame, and of those in transactions
        self.read_buffer = memoryview(bytearray())  # one for all connections, made for the first
        self.blocked_reason = ""
        self._alarms = Alarms(broker.log)
        self.now = 0.0  # as of the last tick: exact enough for whoever counts in seconds
        self.port = 0
        self._looked_at = 0.0
        self._per_host: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._refusals_this_second = (0, 0)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        try:
            listening.bind((host, port))
        except BaseException:
            listening.close()
            raise
        self._server = await loop.create_server(self._connection, sock=listening, backlog=BACKLOG)
        self.port = listening.getsockname()[1]
        self.now = loop.time()
        self._ticker = loop.call_later(TICK_S, self._tick)
        return host, self.port

    def _connection(self) -> AmqpConnection:
        from headrace.amqp.connection import AmqpConnection, read_buffer_bytes

        if not self.read_buffer:
            self.read_buffer = memoryview(bytearray(read_buffer_bytes(self.frame_max)))
        return AmqpConnection(self)

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.shut_down()

    # --- who may connect

    def admit(self, connection: AmqpConnection) -> str:
        """Empty, or why not."""
        settings = self.broker.settings
        host = connection.peer_host
        if len(self.connections) >= settings.get_int("max.connections"):
            return "max.connections is reached"
        if self._per_host[host] >= settings.get_int("max.connections.per.ip"):
            return f"max.connections.per.ip is reached for {host}"
        if self.authenticating >= AUTHENTICATING:
            return f"{AUTHENTICATING} connections are logging in"
        self.connections.add(connection)
        self.authenticating += 1
        self.traffic.connections = len(self.connections)
        self.traffic.connections_total += 1
        self._per_host[host] += 1
        return ""

    def forget(self, connection: AmqpConnection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.authenticating -= not connection.logged_in
        self.traffic.connections = len(self.connections)
        host = connection.peer_host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def log_closed(self, what: str, why: str) -> None:
        """At most so many lines a second: a flood of bad peers must not become a flood of log."""
        second = int(self.now)
        last, count = self._refusals_this_second
        count = count + 1 if last == second else 1
        self._refusals_this_second = (second, count)
        if count <= _REFUSALS_LOGGED_PER_S:
            logger.warning("closed %s: %s", what, why)

    # --- time

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = now = loop.time()
        self.block(self._alarms.reason())
        late = int(now / TIMEOUTS_EVERY_S) != int(self._looked_at / TIMEOUTS_EVERY_S)
        for connection in tuple(self.connections):
            connection.tick(now)
            if late:
                connection.look_for_timeouts(now)
        self._looked_at = now
        self._ticker = loop.call_later(TICK_S, self._tick)

    def block(self, reason: str) -> None:
        """Publishers wait from now on, or go on when there is no reason any more."""
        if reason == self.blocked_reason:
            return
        self.blocked_reason = reason
        if reason:
            logger.warning("publishers have to wait: %s", reason)
        else:
            logger.info("publishers may go on")
        for connection in tuple(self.connections):
            connection.obey_block()
