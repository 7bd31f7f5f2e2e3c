"""A server that answers as a test says, for what the console asks: over real sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headrace.console.access import Server


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # with its query, as it came
    headers: Message
    content: bytes


@dataclass(frozen=True)
class Said:
    status: int
    content: bytes

    @classmethod
    def json(cls, status: int, value: Any) -> Said:
        return cls(status, json.dumps(value).encode())


Answering = Callable[[Asked], Said]


@contextmanager
def answering(answer: Answering) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            said = answer(Asked(self.command, self.path, self.headers, content))
            self.send_response(said.status)
            self.send_header("content-length", str(len(said.content)))
            self.end_headers()
            self.wfile.write(said.content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, format: str, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def shown(answer: Answering, *, read_only: bool = False) -> AsyncIterator[Server]:
    """The console's side of one."""
    with answering(answer) as url:
        server = Server(url, read_only=read_only)
        try:
            yield server
        finally:
            await server.close()
