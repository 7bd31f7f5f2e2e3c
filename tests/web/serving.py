"""A web server in an event loop of its own thread, and plain sockets to talk to it: tests see exactly what is on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from headrace.sockets import bound_socket
from headrace.web import server as web_server
from headrace.web.exchange import Exchange, Handler
from headrace.web.limits import Limits
from headrace.web.server import WebServer

WITHIN_S = 10.0


class Serving:
    def __init__(self, server: WebServer, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.server = server
        self.loop = loop
        self.port = port
        self.stopped = False

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), WITHIN_S)
        made.settimeout(WITHIN_S)
        return made

    def ask(self, request: bytes) -> bytes:
        """Sends this on a new connection and reads until the server closes."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def run(self, made: Any) -> Any:
        """A coroutine, in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(made, self.loop).result(WITHIN_S)

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return function()

        return self.run(called())

    def stop(self, within_s: float = 5.0) -> None:
        if not self.stopped:
            self.stopped = True
            self.run(self.server.stop(within_s))


@contextmanager
def serving(handler: Handler, limits: Limits | None = None, look_s: float = 0.02) -> Iterator[Serving]:
    """Looks at its connections more often than once a second, so that tests of its patience are short."""
    ready: list[Serving] = []
    started, ended = threading.Event(), threading.Event()
    usual = web_server.LOOK_S
    web_server.LOOK_S = look_s

    async def main() -> None:
        made = WebServer(handler, limits)
        listening = bound_socket("127.0.0.1", 0)
        await made.start(listening)
        ready.append(Serving(made, asyncio.get_running_loop(), listening.getsockname()[1]))
        over = asyncio.Event()
        ready[0].over = lambda: ready[0].loop.call_soon_threadsafe(over.set)  # type: ignore[attr-defined]
        started.set()
        await over.wait()

    def run() -> None:
        try:
            uvloop.run(main())
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert started.wait(WITHIN_S)
    try:
        yield ready[0]
    finally:
        with contextlib.suppress(Exception):
            ready[0].stop(0.0)
        ready[0].over()  # type: ignore[attr-defined]
        assert ended.wait(WITHIN_S)
        web_server.LOOK_S = usual


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes, or resets."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            got += piece
    return got


def fill(connection: socket.socket, data: bytes) -> int:
    """Sends this again and again until nothing more is taken. Returns how many bytes were."""
    sent = 0
    connection.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        while sent < 200 * 1024 * 1024:
            sent += connection.send(data)
    connection.settimeout(WITHIN_S)
    return sent


def read_answer(connection: socket.socket, head: bool = False) -> tuple[int, dict[bytes, bytes], bytes]:
    """One answer that has a Content-Length, or none and no body."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(1)
        assert piece, f"closed after {got!r}"
        got += piece
    lines = got.split(b"\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in lines[1:-2])
    size = 0 if head else int(headers.get(b"content-length", b"0"))
    body = b""
    while len(body) < size:
        piece = connection.recv(size - len(body))
        assert piece, f"closed after {len(body)} of {size} bytes"
        body += piece
    return int(lines[0].split()[1]), headers, body


def echo(exchange: Exchange) -> None:
    """Answers with method, target and body."""

    def whole(body: bytes) -> None:
        exchange.respond(200, [(b"x-target", exchange.target)], exchange.method + b" " + body)

    exchange.collect(1 << 24, whole, lambda: exchange.respond(413, [], b"too large"))


class Noted:
    """A handler that only notes the exchanges: tests answer them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.gone: list[Exchange] = []

    def __call__(self, exchange: Exchange) -> None:
        exchange.on_gone = lambda: self.gone.append(exchange)
        self.exchanges.append(exchange)


def endless(noted: Noted, piece_bytes: int = 65536) -> Handler:
    """Answers with pieces until the peer is gone."""

    async def write(exchange: Exchange) -> None:
        exchange.start(200, [])
        try:
            while True:
                exchange.write(b"x" * piece_bytes)
                await exchange.drained()
        except ConnectionError:
            noted.gone.append(exchange)

    def handler(exchange: Exchange) -> None:
        noted.exchanges.append(exchange)
        asyncio.get_running_loop().create_task(write(exchange))

    return handler
