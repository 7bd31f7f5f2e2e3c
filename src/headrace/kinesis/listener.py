"""The Kinesis listener: a socket that is bound at once and served from the first connection on.

What speaks the API is imported on a thread when somebody connects: until then the connection waits in the backlog, and a server
that no Kinesis client talks to starts without it. Requests run in the server's own event loop (`web`).

Bounds: `BACKLOG` connections that wait to be accepted, `MAX_CONNECTIONS` that are open; the rest is in `web.limits`, and
those of requests in `front_door`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.broker.traffic import Traffic
from headrace.sockets import bound_socket

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.kinesis.service import Service
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.kinesis")

BACKLOG = 1024
MAX_CONNECTIONS = 4096
# On loopback a segment may have 64 KB, which stalls a peer with a small window for 200 ms at a time.
SEGMENT_BYTES = 16 * 1024
STOP_WITHIN_S = 1.0


class WebTraffic(Traffic):
    """Connections are counted by the web server, once there is one."""

    __slots__ = ("server",)

    def __init__(self) -> None:
        self.server: WebServer | None = None
        super().__init__()

    @property
    def connections(self) -> int:
        return 0 if self.server is None else self.server.open_connections

    @connections.setter
    def connections(self, value: int) -> None: ...

    @property
    def connections_total(self) -> int:
        return 0 if self.server is None else self.server.connections_total

    @connections_total.setter
    def connections_total(self, value: int) -> None: ...

    @property
    def connections_refused(self) -> int:
        return 0 if self.server is None else self.server.refused_total

    @connections_refused.setter
    def connections_refused(self, value: int) -> None: ...


class KinesisListener:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.traffic = broker.traffic["kinesis"] = WebTraffic()
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._service: Service | None = None

    def start(self, host: str, port: int) -> tuple[str, int]:
        listening = bound_socket(host, port, {(socket.IPPROTO_TCP, socket.TCP_MAXSEG): SEGMENT_BYTES})
        listening.listen(BACKLOG)
        listening.setblocking(False)
        self._socket = listening
        asyncio.get_running_loop().add_reader(listening.fileno(), self._first_connection)
        return host, listening.getsockname()[1]

    def _first_connection(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        self._task = loop.create_task(self._serve(self._socket))

    async def _serve(self, listening: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            opening = await loop.run_in_executor(None, import_module, "headrace.kinesis.opening")
            self._service, server = opening.open_door(self._broker, self.traffic, MAX_CONNECTIONS)
            self.traffic.server = server
            await server.start(listening, BACKLOG)
        except Exception:
            logger.exception("the Kinesis front end failed; the other front ends go on")
            listening.close()  # who waits to be accepted is told so
            self._socket = None

    async def stop(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        if self._task is not None:
            await self._task
        if self._service is not None:
            self._service.close()
        if self.traffic.server is not None:
            await self.traffic.server.stop(STOP_WITHIN_S)
        if self._service is not None:
            await self._service.stop()
        self._socket.close()
        self._socket = None
