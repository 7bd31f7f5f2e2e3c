"""A receiver of webhooks, written with the library that others use. Run as a process: `webhook_receiver.py PORT FOLDER`.

It verifies each request with the secret that is in the file `secret` of its folder, and writes a line of JSON about it to the
file `received`, synced, before it answers. How it answers is in the file `mode`:

    ok      200
    error   500, and the event is not taken
    lose    takes the event, and ends the connection instead of answering
    reset   ends the connection before it has looked at anything
    hang    answers nothing for longer than anybody waits, and does not take the event
    late    takes the event, and answers when nobody waits any more
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook, WebhookVerificationError

LONG_S = 3.0

folder = Path(sys.argv[2])
journal = os.open(folder / "received", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
journal_lock = threading.Lock()


def remember(**facts: object) -> None:
    with journal_lock:
        os.write(journal, json.dumps(facts).encode() + b"\n")
        os.fsync(journal)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        mode = (folder / "mode").read_text()
        if mode == "reset":
            self.cut()
            return
        body = self.rfile.read(int(self.headers["content-length"]))
        if mode == "hang":
            time.sleep(LONG_S)
            self.cut()
            return
        signatures = self.headers["webhook-signature"].count("v1,")
        try:
            event = Webhook((folder / "secret").read_text()).verify(body, dict(self.headers.items()))
        except WebhookVerificationError as error:
            remember(id=self.headers["webhook-id"], verified=False, error=str(error), signatures=signatures)
            self.answer(401)
            return
        if mode == "error":
            self.answer(500)
            return
        remember(id=self.headers["webhook-id"], verified=True, number=event["number"], signatures=signatures)
        if mode == "lose":
            self.cut()
            return
        if mode == "late":
            time.sleep(LONG_S)
        self.answer(200)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def cut(self) -> None:
        """With a reset, as a process that dies does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            pass

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1])), Receiver)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()
