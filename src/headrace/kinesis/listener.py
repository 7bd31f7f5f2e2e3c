"""The Kinesis listener: a socket that is bound at once and served from the first connection on (`web.first_connection`): a
server that no Kinesis client talks to starts without what speaks the API. Requests run in the server's own event loop (`web`).

Bounds: `MAX_CONNECTIONS` that are open; the rest is in `web.limits`, and those of requests in `front_door`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.broker.traffic import Traffic
from headrace.web.first_connection import FirstConnection

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.kinesis.service import Service
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.kinesis")

MAX_CONNECTIONS = 4096
# On loopback a segment may have 64 KB, which stalls a peer with a small window for 200 ms at a time.
SEGMENT_BYTES = 16 * 1024
STOP_WITHIN_S = 1.0


class KinesisListener:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._socket = FirstConnection(self._open, "Kinesis", logger)
        self._service: Service | None = None
        self._server: WebServer | None = None
        self._traffic = broker.traffic["kinesis"] = Traffic()

    def start(self, host: str, port: int) -> tuple[str, int]:
        return self._socket.listen(host, port, {(socket.IPPROTO_TCP, socket.TCP_MAXSEG): SEGMENT_BYTES})

    async def _open(self) -> WebServer:
        loop = asyncio.get_running_loop()
        opening = await loop.run_in_executor(None, import_module, "headrace.kinesis.opening")
        server: WebServer
        self._service, server = opening.open_door(self._broker, self._traffic, MAX_CONNECTIONS)
        self._server = server
        self._traffic.look = self._count
        return server

    def _count(self) -> None:
        assert self._server is not None
        self._traffic.connections = self._server.open_connections
        self._traffic.connections_total = self._server.connections_total
        self._traffic.connections_refused = self._server.refused_total

    async def stop(self) -> None:
        await self._socket.settle()
        if self._service is not None:
            self._service.close()
        if self._server is not None:
            await self._server.stop(STOP_WITHIN_S)
        if self._service is not None:
            await self._service.stop()
        self._socket.close()
