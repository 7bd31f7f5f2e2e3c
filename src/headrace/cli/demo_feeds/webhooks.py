"""The shop's orders as webhooks: a receiver on this machine, and the route that sends to it.

The receiver verifies each signature, and does not always answer well: to FAIL_ONE_IN of the orders it says 503 the first time,
and to NEVER_ONE_IN of them every time, so that there is something to see: attempts, retries, and after MAX_ATTEMPTS a dead
letter. Which ones that is follows from the event's id. The server must have been told that it may call this address: `allowed`.
"""

from __future__ import annotations

import base64
import hmac
import os
import threading
import zlib
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.cli.demo_feeds.amqp import LOG
from headrace.cli.demo_feeds.background import Background
from headrace.client.routes import RoutesClient

ROUTE = "demo.orders.to-warehouse"
FAIL_ONE_IN, NEVER_ONE_IN = 10, 40
MAX_ATTEMPTS = 3
RATE = 20  # requests a second
_MOST_BODY = 1 << 20


class WarehouseWebhook(Background):
    """Bound when it is made, so that the server can be told about it before it starts."""

    name = "webhooks to the warehouse"
    protocol = "webhooks"

    def __init__(self) -> None:
        super().__init__()
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._receiver = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._receiver.daemon_threads = True
        self._serving = threading.Thread(target=self._receiver.serve_forever, args=(0.1,), name="demo warehouse", daemon=True)
        self._serving.start()
        self._server = ""

    @property
    def allowed(self) -> str:
        """For headrace.webhooks.allow."""
        return f"127.0.0.1:{self._receiver.server_address[1]}"

    def begin(self, http: str) -> None:
        self._server = http
        self.start()

    def join(self) -> None:
        super().join()
        self._receiver.shutdown()
        self._receiver.server_close()

    def _work(self) -> None:
        with RoutesClient(self._server) as routes:
            routes.put(
                ROUTE,
                topic=LOG,
                destination={
                    "type": "webhook",
                    "url": f"http://{self.allowed}/orders",
                    "secrets": ["whsec_" + base64.b64encode(self._key).decode()],
                    "max_attempts": MAX_ATTEMPTS,
                    "first_pause_s": 1,
                    "disable_after_s": 0,
                    "rate_per_s": RATE,
                },
            )
        self.ended.wait()

    def answer(self, event: str, at: str, attempt: int, signatures: str, body: bytes) -> int:
        """The status for a request."""
        signed = hmac.digest(self._key, f"{event}.{at}.".encode() + body, sha256)
        wanted = "v1," + base64.b64encode(signed).decode()
        luck = zlib.crc32(event.encode())
        if not any(hmac.compare_digest(wanted, one) for one in signatures.split()):
            status, became = 401, "not verified"
        elif luck % NEVER_ONE_IN == 0 or (luck % FAIL_ONE_IN == 1 and attempt == 1):
            status, became = 503, "failed"
        else:
            status, became = 204, "received"
        with self._lock:  # requests come side by side
            self.count(became)
        return status


def _handler(hook: WarehouseWebhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30.0

        def do_POST(self) -> None:
            length, attempt = self._number("content-length"), self._number("headrace-attempt")
            if length > _MOST_BODY:
                self.close_connection = True
                self._answer(413)
                return
            body = self.rfile.read(length)
            event, at = self.headers.get("webhook-id", ""), self.headers.get("webhook-timestamp", "")
            self._answer(hook.answer(event, at, attempt, self.headers.get("webhook-signature", ""), body))

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _number(self, name: str) -> int:
            text = self.headers.get(name, "0")
            return int(text) if text.isdigit() else 0

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    return Handler
