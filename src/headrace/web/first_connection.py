"""A socket that is bound at once and served from the first connection on: a front end that nobody talks to costs nothing.

The socket listens, the first connection waits in its backlog while `opening` imports what serves it (on a thread) and makes the
web server, which takes the socket over then. If that fails the socket is closed: who waits to be accepted is told so, and the
other front ends go on.

Bound: `BACKLOG` connections that wait to be accepted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from headrace.sockets import Option, bound_socket

if TYPE_CHECKING:
    from headrace.web.server import WebServer

BACKLOG = 1024


class FirstConnection:
    """`what` names the front end in `logger`."""

    def __init__(self, opening: Callable[[], Awaitable[WebServer]], what: str, logger: logging.Logger) -> None:
        self._opening = opening
        self._what = what
        self._logger = logger
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    def listen(self, host: str, port: int, options: Mapping[Option, int]) -> tuple[str, int]:
        listening = bound_socket(host, port, options)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        self._socket = listening
        asyncio.get_running_loop().add_reader(listening.fileno(), self._somebody, listening)
        return host, listening.getsockname()[1]

    def _somebody(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        self._task = loop.create_task(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        try:
            server = await self._opening()
            await server.start(listening, BACKLOG)
        except Exception:
            self._logger.exception("the %s front end failed; the other front ends go on", self._what)
            self.close()

    async def settle(self) -> None:
        """From here on nothing is opened any more; what is being opened is open, or has failed."""
        if self._task is not None:
            await self._task
        elif self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())

    def close(self) -> None:
        """After `settle`."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
