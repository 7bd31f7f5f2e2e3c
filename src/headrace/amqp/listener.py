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
from typing import TYPE_CHECKING

from headrace.amqp.alarms import Alarms
from headrace.amqp.describing import AmqpClients, AmqpDoor
from headrace.broker.peers import Peers
from headrace.broker.traffic import Traffic
from headrace.sockets import bound_socket

if TYPE_CHECKING:
    from headrace.amqp.connection import AmqpConnection
    from headrace.amqp.wakefulness import Wakefulness
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
STAY_AWAKE_MS = "headrace.amqp.stay.awake.ms"


class AmqpListener:
    frame_max = FRAME_MAX
    channel_max = CHANNEL_MAX
    heartbeat_s = HEARTBEAT_S

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.traffic = broker.traffic["amqp"] = Traffic()
        self.traffic.look = self._count
        self.delivered = 0  # through channels that are closed
        self._received_bytes = self._sent_bytes = 0  # through connections that are closed
        broker.clients.front_ends["amqp"] = AmqpClients(self)
        broker.clients.doors["amqp"] = AmqpDoor(self)
        self._peers: Peers[AmqpConnection] = Peers(broker.settings, self.traffic, logger)
        self.authenticating = 0
        self.unfinished_bytes = 0  # of messages that come frame by frame, and of those in transactions
        self.read_buffer = memoryview(bytearray())  # one for all connections, made for the first
        self.blocked_reason = ""
        self._alarms = Alarms(broker.log)
        self.now = 0.0  # as of the last tick: exact enough for whoever counts in seconds
        self.port = 0
        self._looked_at = 0.0
        self.wakefulness: Wakefulness | None = None
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        listening = bound_socket(host, port, {(socket.IPPROTO_TCP, socket.TCP_MAXSEG): SEGMENT_BYTES})
        self._server = await loop.create_server(self._connection, sock=listening, backlog=BACKLOG)
        self.port = listening.getsockname()[1]
        self.now = loop.time()
        stay_ms = self.broker.settings.get_int(STAY_AWAKE_MS)
        if stay_ms:
            from headrace.amqp.wakefulness import Wakefulness  # few want it

            self.wakefulness = Wakefulness(stay_ms / 1000)
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

    @property
    def connections(self) -> set[AmqpConnection]:
        return self._peers.connected

    def admit(self, connection: AmqpConnection) -> str:
        """Empty, or why not."""
        if self.authenticating >= AUTHENTICATING:
            return f"{AUTHENTICATING} connections are logging in"
        refused = self._peers.admit(connection)
        self.authenticating += not refused
        return refused

    def forget(self, connection: AmqpConnection) -> None:
        if self._peers.forget(connection):
            self.authenticating -= not connection.logged_in
            self._received_bytes += connection.received_bytes
            self._sent_bytes += connection.outbox.sent_bytes

    def _count(self) -> None:
        """Connections and channels count for themselves; to add them up is for whoever asks."""
        received, sent, delivered = self._received_bytes, self._sent_bytes, self.delivered
        published = sum(vhost.counted.published for vhost in self.broker.vhosts)
        for connection in self.connections:
            received += connection.received_bytes
            sent += connection.outbox.sent_bytes
            for channel in connection.channels.values():
                if channel.open:
                    published += channel.published
                    delivered += channel.next_tag - 1
        traffic = self.traffic
        traffic.wire_in, traffic.wire_out = received, sent
        traffic.records_in, traffic.records_out = published, delivered

    def log_closed(self, what: str, why: str) -> None:
        self._peers.log_closed(what, why, self.now)

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
