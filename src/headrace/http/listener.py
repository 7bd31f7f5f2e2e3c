"""The HTTP listener: a socket that is bound at once and served from the first connection on (`web.first_connection`).

Starlette, msgspec, prometheus-client and the web server take a third of a second and some 15 MB to import, so they wait until
somebody connects. The web server (`headrace.web`) then runs in the event loop of this process.

Bounds: those of `web.limits`, with `MAX_CONNECTIONS` connections (a quarter of the files that may be open, if that is less),
WebSockets among them, and `headrace.http.stalled.ms` for a peer that does not read. Of a stream, `UNSENT_BYTES` are kept for
such a peer, and `SEND_BUFFER_BYTES` by the kernel, which gives it up after the same time if it says nothing at all. How many
requests are worked on at once is a matter of `v1.admission`.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.broker.traffic import Traffic
from headrace.web.first_connection import FirstConnection

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.http.app import Door
    from headrace.web.limits import Limits
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.http")

MAX_CONNECTIONS = 4096
STALLED_MS, IDLE_MS = "headrace.http.stalled.ms", "connections.max.idle.ms"
SEND_BUFFER_BYTES = 256 * 1024
UNSENT_BYTES = 128 * 1024
STOP_WITHIN_S = 2.0


class HttpListener:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._socket = FirstConnection(self._open, "HTTP", logger)
        self._door: Door | None = None
        self._server: WebServer | None = None
        self._traffic = broker.traffic["http"] = Traffic()

    def start(self, host: str, port: int) -> tuple[str, int]:
        options = {(socket.SOL_SOCKET, socket.SO_SNDBUF): SEND_BUFFER_BYTES}
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            options[(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)] = self._broker.settings.get_int(STALLED_MS)
        return self._socket.listen(host, port, options)

    async def _open(self) -> WebServer:
        loop = asyncio.get_running_loop()
        app = await loop.run_in_executor(None, import_module, "headrace.http.app")
        web = await loop.run_in_executor(None, import_module, "headrace.web.server")
        describing = await loop.run_in_executor(None, import_module, "headrace.web.describing")
        self._door = app.Door(self._broker)
        server: WebServer = web.WebServer(self._door.handler, self._limits())
        self._server = server
        self._broker.clients.doors["http"] = describing.WebDoor("http", lambda: server)
        self._traffic.look = self._count
        self._broker.settings.subscribe(self._read_settings)
        return server

    def _read_settings(self) -> None:
        if self._server is not None:
            self._server.limits = self._limits()

    def _limits(self) -> Limits:
        from headrace.web.limits import Limits

        settings = self._broker.settings
        # streams of lines may be silent for so long; what else takes a body sees to its time itself
        idle_s = settings.get_int(IDLE_MS) / 1000 + 1
        return Limits(
            connections=_connections(),
            body_s=idle_s,
            stalled_s=settings.get_int(STALLED_MS) / 1000,
            unsent_bytes=UNSENT_BYTES,
        )

    def _count(self) -> None:
        assert self._server is not None
        sockets = self._broker.traffic.get("websocket")
        self._traffic.connections = max(0, self._server.open_connections - (0 if sockets is None else sockets.connections))
        self._traffic.connections_total = self._server.connections_total
        self._traffic.connections_refused = self._server.refused_total
        self._traffic.subscriptions = 0 if self._door is None else self._door.streams

    async def stop(self) -> None:
        await self._socket.settle()
        if self._door is not None:
            await self._door.close(STOP_WITHIN_S / 2)
        if self._server is not None:
            await self._server.stop(STOP_WITHIN_S / 2)
        self._socket.close()


def _connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(64, min(MAX_CONNECTIONS, files // 4))
