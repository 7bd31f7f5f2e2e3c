"""One Kafka listener: accepts connections, counts them and what they buffer, and closes those that have gone silent."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

from headrace.broker.peers import Peers
from headrace.broker.traffic import Traffic
from headrace.kafka.attention import Attention
from headrace.kafka.connection import KafkaConnection
from headrace.kafka.describing import KafkaDoor
from headrace.kafka.fetch_sessions import FetchSessions
from headrace.sockets import bound_socket

if TYPE_CHECKING:
    from headrace.broker import Broker

logger = logging.getLogger("headrace.kafka")

FRAMES_LIMIT_BYTES = 512 * 1024 * 1024
_ROOM_AGAIN_BYTES = 32 * 1024 * 1024
_READ_BUFFER_BYTES = 256 * 1024
_SEND_BUFFER_BYTES = 512 * 1024  # each connection inherits it; a buffer that grows by itself costs a third more time a fetch
_SWEEP_EVERY_S = 5.0
_FEW_PEERS = 4
_UNFINISHED_FRAME_S = 60.0
_STALLED_FRAME_S = 1.0


class KafkaListener:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.traffic = broker.traffic["kafka"] = Traffic()
        broker.clients.doors["kafka"] = KafkaDoor(self)
        self.produce_times = self.traffic.requests["Produce"]
        self.fetch_times = self.traffic.requests["Fetch"]
        settings = broker.settings
        self.max_frame_bytes = settings.get_int("socket.request.max.bytes")
        self.max_fetch_bytes = settings.get_int("fetch.max.bytes")
        self._max_idle_s = settings.get_int("connections.max.idle.ms") / 1000
        self.read_buffer = bytearray(_READ_BUFFER_BYTES)
        self.frame_bytes = 0  # in buffers of unfinished or waiting requests, all connections together
        self.sessions = FetchSessions(settings.get_int("max.incremental.fetch.session.cache.slots"), broker.clock, Random())
        self.advertised = ("127.0.0.1", 0)
        self._peers: Peers[KafkaConnection] = Peers(settings, self.traffic, logger)
        self.now = monotonic  # the time of uvloop has milliseconds only: too coarse for how long a request takes
        self.attention = Attention()
        self.few_peers = True  # with many, the loop hardly sleeps, and staying awake would only cost
        self._waiting_for_room: deque[KafkaConnection] = deque()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        self.broker.quotas.subscribe(self._quotas_changed)
        listening = bound_socket(host, port, {(socket.SOL_SOCKET, socket.SO_SNDBUF): _SEND_BUFFER_BYTES})
        self._server = await loop.create_server(lambda: KafkaConnection(self), sock=listening, backlog=1024)
        self.advertised = (host, listening.getsockname()[1])
        self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep)
        return self.advertised

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._peers.connected):
            connection.close_gently()

    # --- who may connect

    @property
    def connections(self) -> set[KafkaConnection]:
        return self._peers.connected

    def admit(self, connection: KafkaConnection) -> str:
        """Empty, or why not."""
        refused = self._peers.admit(connection)
        self.few_peers = len(self._peers.connected) <= _FEW_PEERS
        return refused

    def connected_too_often(self, connection: KafkaConnection) -> int:
        """For how many milliseconds a new connection must not be served (connection_creation_rate of its address)."""
        quotas = self.broker.quotas
        return quotas.connected(connection.peer_host) if quotas.addresses_limited else 0

    def _quotas_changed(self) -> None:
        for connection in self._peers.connected:
            connection.obey_quotas()

    def forget(self, connection: KafkaConnection) -> None:
        self._peers.forget(connection)
        self.few_peers = len(self._peers.connected) <= _FEW_PEERS

    def log_refusal(self, peer: str, why: str) -> None:
        self.traffic.connections_refused += 1
        self._peers.log_closed(peer, why, self.now())

    def _sweep(self) -> None:
        now = self.now()
        for connection in tuple(self._peers.connected):
            silent_s = now - connection.last_active
            if silent_s > self._max_idle_s:
                connection.close_gently()
            elif silent_s > _UNFINISHED_FRAME_S and connection.in_mid_frame:
                connection.refuse(f"no byte of an unfinished request for {silent_s:.0f} s")
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_EVERY_S, self._sweep)

    # --- what they may buffer

    def may_buffer(self, more: int) -> bool:
        return self.frame_bytes + more <= FRAMES_LIMIT_BYTES

    def wait_for_room(self, connection: KafkaConnection) -> None:
        """Room for a larger frame must be made or waited for. Frames that nobody goes on sending give theirs up first."""
        self._waiting_for_room.append(connection)
        asyncio.get_running_loop().call_later(_STALLED_FRAME_S, self._make_room)

    def _make_room(self) -> None:
        if not self._waiting_for_room:
            return
        now = self.now()
        stalled = [c for c in self._peers.connected if c.in_mid_frame and now - c.last_active > _STALLED_FRAME_S]
        for connection in sorted(stalled, key=lambda c: c.last_active):
            if not self._waiting_for_room:
                return
            if connection not in self._waiting_for_room:
                connection.refuse("its unfinished request took the room that others need")
        if self._waiting_for_room:
            asyncio.get_running_loop().call_later(_STALLED_FRAME_S, self._make_room)

    def release(self, size: int) -> None:
        self.frame_bytes -= size
        if self._waiting_for_room and self.frame_bytes < FRAMES_LIMIT_BYTES - _ROOM_AGAIN_BYTES:
            waiting, self._waiting_for_room = self._waiting_for_room, deque()
            for connection in waiting:
                connection.room_again()
