"""The HTTP listener: a socket that is bound at once and served from the first connection on.

Granian, Starlette and prometheus-client take a third of a second and some 15 MB to import, so they wait until somebody
connects: the socket listens, the first connection waits in its backlog while they are imported on a thread, and then Granian
takes the socket over. Requests run in the server's own event loop; Granian's threads do the HTTP.

Bounds: `BACKLOG` connections that wait to be accepted, `MAX_CONNECTIONS` that are open (a quarter of the files that may be, if
that is less; Granian stops accepting beyond, but does not count WebSockets: `v1.admission` does), `MAX_HEAD_BYTES` for the head
of a request, which must be there `HEAD_WITHIN_S` after the connection or the last answer. Those that don't even begin one are
found by `connections`, every `LOOK_S`. A peer that does not read what it asked for is cut off by the kernel after
`headrace.http.stalled.ms`; until then it costs `SEND_BUFFER_BYTES` there and a few pieces of its answer in Granian. How many
requests are worked on at once is a matter of `v1.admission`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.http.connections import SILENT_S, cut_silent
from headrace.sockets import bound_socket

if TYPE_CHECKING:
    from headrace.broker import Broker

logger = logging.getLogger("headrace.http")

BACKLOG = 128
MAX_CONNECTIONS = 4096
MAX_HEAD_BYTES = 64 * 1024
MAX_STREAMS_OF_ONE = 128  # requests at once on one connection of HTTP/2
HEAD_WITHIN_S = 30
STALLED_MS = "headrace.http.stalled.ms"
LOOK_S = 10
SEND_BUFFER_BYTES = 256 * 1024
STOP_WITHIN_S = 2.0


class HttpListener:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._server: Any = None
        self._app: Any = None
        self._looking: asyncio.Task[None] | None = None

    def start(self, host: str, port: int) -> tuple[str, int]:
        options = {(socket.SOL_SOCKET, socket.SO_SNDBUF): SEND_BUFFER_BYTES}
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            options[(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)] = self._broker.settings.get_int(STALLED_MS)
        listening = bound_socket(host, port, options)
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
            module = await loop.run_in_executor(None, import_module, "headrace.http.app")
            self._app = module.make_app(self._broker)
            self._server = await loop.run_in_executor(None, _granian, self._app, listening)
            self._looking = loop.create_task(_look_for_silent(listening.getsockname()[1]))
            await self._server.serve()
        except Exception:
            logger.exception("the HTTP front end failed; the other front ends go on")

    async def stop(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        if self._looking is not None:
            self._looking.cancel()
        if self._task is not None:
            if self._app is not None:
                await self._app.close(STOP_WITHIN_S / 2)
            if self._server is not None:
                self._server.stop()
            done, _ = await asyncio.wait({self._task}, timeout=STOP_WITHIN_S / 2)
            if not done:
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
        self._socket.close()
        self._socket = None


async def _look_for_silent(port: int) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        count = await asyncio.to_thread(cut_silent, port)
        if count:
            logger.warning("closed %d HTTP connections that said nothing for %d s", count, SILENT_S)


def _connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(64, min(MAX_CONNECTIONS, files // 4))


def _granian(app: Any, listening: socket.socket) -> Any:
    from granian._granian import SocketHolder
    from granian.constants import Interfaces
    from granian.http import HTTP1Settings, HTTP2Settings
    from granian.server.embed import Server

    class OnOurSocket(Server):
        """Granian on a socket that is bound already; by itself it would not tell which port it took for 0."""

        def _init_shared_socket(self) -> None:
            holder: Any = SocketHolder
            self._ssp = None
            self._shd = holder(os.dup(listening.fileno()), False, BACKLOG)

    logging.getLogger("_granian").setLevel(logging.WARNING)
    host, port = listening.getsockname()[:2]
    return OnOurSocket(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        backlog=BACKLOG,
        backpressure=_connections(),
        http1_settings=HTTP1Settings(header_read_timeout=HEAD_WITHIN_S * 1000, max_buffer_size=MAX_HEAD_BYTES),
        http2_settings=HTTP2Settings(
            max_concurrent_streams=MAX_STREAMS_OF_ONE,
            max_headers_size=MAX_HEAD_BYTES,
            max_send_buffer_size=MAX_HEAD_BYTES,
            keep_alive_interval=HEAD_WITHIN_S * 1000,
            keep_alive_timeout=HEAD_WITHIN_S,
        ),
        websockets=True,
        log_enabled=False,
    )
