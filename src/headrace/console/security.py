"""Who may speak to the console: whoever reaches it by its own name, from its own pages.

A page of somebody else's in the same browser could send requests to a console on loopback, or open its WebSocket. So

    Host     must be an address, localhost, or a name given with --host-name: otherwise a foreign name that was made to point
             here (DNS rebinding) would share an origin with us
    Origin   where a browser sends one, must be that of the console itself: with another, or with `null`, everything is
             refused. (Following a link sends none.)
    Sec-Fetch-Site   must not be cross-site for anything but opening a page
    a body   has at most `MOST_BODY_BYTES`: it would be written to disk as it comes

What is refused gets 403 and one line in the log. Answers say that no other page may embed the console or read it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.web.visitors import NotLetIn, Visitors, Wrong

logger = logging.getLogger("headrace.console")

MOST_BODY_BYTES = 4 * 1024 * 1024  # a file with a schema is the largest that a page sends

_HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; worker-src 'self' blob:; "
        b"frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
    ),
)


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self._app = app
        self._visitors = Visitors()
        self._visitors.allow(names, ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        why = self.refusal(scope)
        if why is None:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
            return
        logger.warning("refused a request: %s", why)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403})
            return
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
        await send({"type": "http.response.body", "body": f"Refused: {why}.\n".encode()})

    def refusal(self, scope: Scope) -> str | None:
        """Why, or None."""
        headers = dict(scope["headers"])
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        try:
            self._visitors.check_host(host)
            if origin is not None:
                self._visitors.check_origin(origin, host)
        except NotLetIn as stranger:
            if stranger.wrong is Wrong.ORIGIN:
                return f"Origin {stranger.shown!r} is not the console"
            return f"Host {stranger.shown!r} is not a name of this console"
        if origin is None and scope["type"] == "websocket":
            return "a WebSocket without an Origin"
        if headers.get(b"sec-fetch-site") == b"cross-site" and headers.get(b"sec-fetch-mode") != b"navigate":
            return "asked for by a page of somebody else"
        length = headers.get(b"content-length", b"0")
        if b"transfer-encoding" in headers or not length.isdigit() or int(length[:20]) > MOST_BODY_BYTES:
            return f"a body of more than {MOST_BODY_BYTES:,} bytes, or nobody knows of how many"
        return None


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return sent
