"""A Kinesis endpoint that says what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Scripted:
    """A server that answers requests with what stands next in `answers`: (status, body, close the connection)."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, bool]] = []
        self.asked: list[tuple[str, Any, str]] = []
        self.connections = 0
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                scripted.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                scripted.asked.append((self.headers["x-amz-target"], json.loads(body), self.headers["authorization"]))
                status, answer, close = scripted.answers.pop(0)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                self.close_connection = close  # without a word in the headers, as an idle timeout would

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def will_answer(self, body: object, status: int = 200, *, close: bool = False) -> None:
        self.answers.append((status, json.dumps(body).encode(), close))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.server.shutdown()
    found.server.server_close()
