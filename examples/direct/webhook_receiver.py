"""A receiver of webhooks that misses nothing and takes nothing twice.

    pip install standardwebhooks
    python webhook_receiver.py --port 9000 --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw

Three rules make a good one, whoever sends (webhook_sender.py does, and so does everybody who follows Standard Webhooks):

    verify     before anything else, over the bytes as they came, with the time in the signature: others can reach this URL too
    remember   an event may come twice, when an answer got lost; its id is the same then. Here a table has the ids, and an
               event is stored in the same transaction
    answer     2xx when that is durable, and not before; whoever is not answered sends again, for days if need be

Each event that is new is printed.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

MAX_BYTES = 1 << 20


class Inbox:
    """Events in a file, each once."""

    def __init__(self, path: str) -> None:
        self._file = sqlite3.connect(path, check_same_thread=False)
        self._lock = threading.Lock()
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB)")

    def put(self, event_id: str, body: bytes) -> bool:
        """Whether it is new. Durable when this returns."""
        with self._lock, self._file:
            return self._file.execute("INSERT OR IGNORE INTO inbox VALUES (?, ?)", (event_id, body)).rowcount == 1


def handler(webhook: Webhook, inbox: Inbox) -> type[BaseHTTPRequestHandler]:
    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept for the next event

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            if length > MAX_BYTES:
                self.close_connection = True
                return self.answer(413)
            body = self.rfile.read(length)
            try:
                webhook.verify(body, dict(self.headers.items()), json_parse=False)
            except WebhookVerificationError:
                return self.answer(401)
            if inbox.put(self.headers["webhook-id"], body):
                print(body.decode(), flush=True)
            return self.answer(204)

        def answer(self, status: int) -> None:
            self.send_response(status)
            if status != 204:
                self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Receiver


def main() -> None:
    options = argparse.ArgumentParser(description="Receives webhooks and prints them.")
    options.add_argument("--port", type=int, default=9000)
    options.add_argument("--secret", required=True, help="whsec_…, as the sender has it")
    options.add_argument("--inbox", default="inbox.sqlite", help="the file that remembers them")
    given = options.parse_args()
    receiver = ThreadingHTTPServer(("127.0.0.1", given.port), handler(Webhook(given.secret), Inbox(given.inbox)))
    print(f"receiving on http://127.0.0.1:{receiver.server_port}/", file=sys.stderr, flush=True)
    receiver.serve_forever()


if __name__ == "__main__":
    main()
