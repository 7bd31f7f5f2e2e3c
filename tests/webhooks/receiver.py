"""A receiver written with the reference library of Standard Webhooks: verifies everything, remembers what it took, and behaves
as it is told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from standardwebhooks import Webhook, WebhookVerificationError


class Receiver:
    """`status` decides the answer to a request that verifies; None closes the connection without one."""

    def __init__(self, port: int = 0) -> None:
        self.secrets: list[str] = []
        self.taken: Counter[str] = Counter()  # by id
        self.values: dict[str, bytes] = {}
        self.forged: list[dict[str, str]] = []
        self.signatures: list[int] = []
        self.status: Callable[[dict[str, str]], int | None] = lambda headers: 200
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._port = port

    def start(self) -> Receiver:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        server.daemon_threads = True
        self._port = server.server_port
        self._server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def take(self, headers: dict[str, str], body: bytes) -> int | None:
        with self._lock:
            if not any(self._verifies(secret, headers, body) for secret in self.secrets):
                self.forged.append(headers)
                return 401
            status = self.status(headers)
            if status is not None and status < 300:
                self.taken[headers["webhook-id"]] += 1
                self.values[headers["webhook-id"]] = body
                self.signatures.append(len(headers["webhook-signature"].split(" ")))
            return status

    def _verifies(self, secret: str, headers: dict[str, str], body: bytes) -> bool:
        try:
            Webhook(secret).verify(body, headers, json_parse=False)
        except WebhookVerificationError:
            return False
        return True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/in"

    def stop(self) -> None:
        """Nobody listens any more; `start` listens at the same port again."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Receiver:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
