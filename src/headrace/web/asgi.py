"""An ASGI 3 application as a handler of exchanges: https://asgi.readthedocs.io/en/latest/specs/www.html, version 2.3.

Each request is one task, which ends when the application returns; it is never cancelled because its peer went, since what it
does may be half done: it hears `http.disconnect` instead, and what it sends from then on is dropped. A whole answer (a start
and one body without more) goes out in one piece.

Backpressure both ways: the body is read from the connection as the application asks for it, and `send` waits while more than
the server's bound is unsent. How long a body may be is the application's matter.

An application that fails is logged, and answered with 500; if its answer was on its way already, the connection is cut, so
that nobody takes half an answer for a whole one. So it is when it returns before its answer has ended.

WebSockets: `websocket`, which is imported with the first of them. A request that has not all that a handshake needs is an
ordinary one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from headrace.web.exchange import Exchange
    from headrace.web.websocket import Sockets

logger = logging.getLogger("headrace.web")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_ASGI = {"version": "3.0", "spec_version": "2.3"}
_FAILED: Headers = [(b"content-type", b"text/plain; charset=utf-8")]


class AsgiHandler:
    def __init__(self, app: App) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop does not keep its tasks alive
        self._sockets: Sockets | None = None

    def __call__(self, exchange: Exchange, body: bytes | None = None) -> None:
        """`body`: what was collected of it already, which is all of it."""
        running = self._http(exchange, body) if not asks_for_upgrade(exchange) else self._websocket(exchange)
        task = asyncio.get_running_loop().create_task(running)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _http(self, exchange: Exchange, body: bytes | None) -> None:
        asked = _Asked(exchange, body)
        answer = Answer(exchange, "http.response", asked.over)
        try:
            await self._app(scope_of(exchange, "http"), asked.receive, answer.send)
        except Exception:
            logger.exception("the application failed")
        answer.close()

    async def _websocket(self, exchange: Exchange) -> None:
        if self._sockets is None:
            from headrace.web.websocket import Sockets

            self._sockets = Sockets()
        await self._sockets.serve(exchange, self._app)


def asks_for_upgrade(exchange: Exchange) -> bool:
    """Whether this is a whole handshake of a WebSocket (RFC 6455, section 4.2.1)."""
    if not exchange.can_upgrade or exchange.method != b"GET":
        return False
    upgrade = exchange.header(b"upgrade") or b""
    connection = exchange.header(b"connection") or b""
    key = exchange.header(b"sec-websocket-key") or b""
    return (
        upgrade.lower() == b"websocket"
        and b"upgrade" in [token.strip() for token in connection.lower().split(b",")]
        and exchange.header(b"sec-websocket-version") == b"13"
        and len(key.strip()) == 24
        and exchange.header(b"content-length") in (None, b"0")
        and exchange.header(b"transfer-encoding") is None
    )


def scope_of(exchange: Exchange, kind: str) -> Scope:
    target = exchange.target
    raw_path, _, query = target.partition(b"?")
    path = raw_path.decode("latin-1")
    return {
        "type": kind,
        "asgi": _ASGI,
        "http_version": "2" if exchange.http2 else "1.1",
        "method": exchange.method.decode("latin-1"),
        "scheme": "http" if kind == "http" else "ws",
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": exchange.headers,
        "client": exchange.peer,
        "server": exchange.local,
        "state": {},
        "headrace.exchange": exchange,
    }


class _Asked:
    """What the peer says."""

    def __init__(self, exchange: Exchange, body: bytes | None) -> None:
        self._exchange = exchange
        self._body = body
        self._ended = False
        self._gone = exchange.gone
        self._waiting: list[asyncio.Future[None]] = []
        exchange.on_gone = self.over

    def over(self) -> None:
        """The peer is gone, or has its answer."""
        self._gone = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def receive(self) -> Message:
        if not self._ended and not self._gone:
            body, self._body = self._body, None
            if body is not None:
                self._ended = True
                return {"type": "http.request", "body": body, "more_body": False}
            try:
                piece = await self._exchange.receive()
            except ConnectionError:
                return {"type": "http.disconnect"}
            self._ended = not piece
            return {"type": "http.request", "body": piece, "more_body": bool(piece)}
        if not self._gone:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return {"type": "http.disconnect"}


class Answer:
    """What the application answers, in messages `<kind>.start` and `<kind>.body`."""

    def __init__(self, exchange: Exchange, kind: str, over: Callable[[], None]) -> None:
        self._exchange = exchange
        self._start_kind = kind + ".start"
        self._body_kind = kind + ".body"
        self._over = over
        self._head: tuple[int, Headers] | None = None
        self._begun = False
        self._ended = False

    async def send(self, message: Message) -> None:
        kind = message["type"]
        exchange = self._exchange
        if kind == self._start_kind:
            if self._head is not None:
                raise RuntimeError("this request is answered already")
            self._head = message["status"], [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        elif kind == self._body_kind and self._head is not None and not self._ended:
            body, more = message.get("body", b""), message.get("more_body", False)
            if not self._begun and not more:
                exchange.respond(*self._head, body)
            else:
                if not self._begun:
                    exchange.start(*self._head)
                if body:
                    exchange.write(body)
                if not more:
                    exchange.end()
            self._begun = True
            if not more:
                self._ended = True
                self._over()
            if exchange.full:
                try:
                    await exchange.drained()
                except ConnectionError:
                    return
        else:
            raise RuntimeError(f"{kind} is out of turn")

    def close(self) -> None:
        """Sees to it that an answer has ended."""
        if self._ended:
            return
        self._ended = True
        if self._begun:
            self._exchange.cut()
        else:
            self._exchange.respond(500, _FAILED, b"Internal Server Error")
