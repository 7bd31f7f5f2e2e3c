"""A connection that has not said yet which protocol it speaks.

HTTP/2 with prior knowledge begins with the client's preface (RFC 9113, 3.4), which no request of HTTP/1.1 does: its first line
is `PRI * HTTP/2.0`. The code of HTTP/2 is imported for the first connection that speaks it, on a thread.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from headrace.web.answer_head import short_answer
from headrace.web.connection import Connection
from headrace.web.http1 import Http1Connection

if TYPE_CHECKING:
    from headrace.web.server import WebServer

_HTTP2 = "headrace.web.http2"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class FirstBytes(Connection):
    def __init__(self, server: WebServer) -> None:
        self.server = server
        self._seen = b""
        self._importing: asyncio.Future[ModuleType] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        found = transport.get_extra_info("peername")
        peer = (found[0].removeprefix("::ffff:"), found[1]) if isinstance(found, tuple) else ("", 0)
        admitted = self.server.has_room()
        Connection.__init__(self, self.server, transport, peer)
        if admitted:
            self.server.keep(self)
        else:
            transport.write(short_answer(503))
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.lost or self.transport.is_closing():
            return
        seen = self._seen + data if self._seen else data
        if self._importing is not None:
            self._seen = seen
            return
        if not seen.startswith(b"PRI"[: len(seen)]):
            self._become(Http1Connection(self.server, self.transport, self.peer), seen)
        elif len(seen) < len(PREFACE) and PREFACE.startswith(seen):
            self._seen = seen
        elif seen.startswith(PREFACE):
            self._become_http2(seen)
        else:
            self._become(Http1Connection(self.server, self.transport, self.peer), seen)

    def _become_http2(self, seen: bytes) -> None:
        made = getattr(sys.modules.get(_HTTP2), "Http2Connection", None)  # none while another thread imports it
        if made is not None:
            self._become(made(self.server, self.transport, self.peer), seen)
            return
        self._seen = seen
        self.pause_reading()
        self._importing = asyncio.get_running_loop().run_in_executor(None, import_module, _HTTP2)
        self._importing.add_done_callback(self._imported)

    def _imported(self, importing: asyncio.Future[ModuleType]) -> None:
        if self.lost or self.transport.is_closing():
            return
        self.resume_reading()
        self._become(importing.result().Http2Connection(self.server, self.transport, self.peer), self._seen)

    def _become(self, connection: Connection, seen: bytes) -> None:
        connection.opened_s = self.opened_s
        self.server.replace(self, connection)
        self.transport.set_protocol(connection)
        connection.data_received(seen)

    def tick(self, now: float) -> None:
        if now - self.opened_s > self.server.silent_s:
            self.refuse("it said nothing")
