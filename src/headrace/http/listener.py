"""The HTTP listener: a socket that is bound at once and served from the first connection on.

Granian, Starlette and prometheus-client take a third of a second and some 15 MB to import, so they wait until somebody
connects: the socket listens, the first connection waits in its backlog while they are imported on a thread, and then Granian
takes the socket over. Requests run in the server's own event loop; Granian's threads do the HTTP.

Bounds: `BACKLOG` connections that wait to be accepted, `MAX_REQUESTS` that are worked on at once (Granian stops accepting
beyond), `MAX_HEAD_BYTES` for the head of a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sockets import bound_socket

if TYPE_CHECKING:
    from headrace.broker import Broker

logger = logging.getLogger("headrace.http")

BACKLOG = 128
MAX_REQUESTS = 64
MAX_HEAD_BYTES = 64 * 1024
STOP_WITHIN_S = 2.0


class HttpListener:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._server: Any = None

    def start(self, host: str, port: int) -> tuple[str, int]:
        listening = bound_socket(host, port)
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
            app = await loop.run_in_executor(None, import_module, "headrace.http.app")
            self._server = await loop.run_in_executor(None, _granian, app.make_app(self._broker), listening)
            await self._server.serve()
        except Exception:
            logger.exception("the HTTP front end failed; the other front ends go on")

    async def stop(self) -> None:
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        if self._task is not None:
            if self._server is not None:
                self._server.stop()
            done, _ = await asyncio.wait({self._task}, timeout=STOP_WITHIN_S)
            if not done:
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
        self._socket.close()
        self._socket = None


def _granian(app: Any, listening: socket.socket) -> Any:
    from granian._granian import SocketHolder
    from granian.constants import Interfaces
    from granian.http import HTTP1Settings
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
        backpressure=MAX_REQUESTS,
        http1_settings=HTTP1Settings(header_read_timeout=30_000, max_buffer_size=MAX_HEAD_BYTES),
        websockets=False,
        log_enabled=False,
    )
