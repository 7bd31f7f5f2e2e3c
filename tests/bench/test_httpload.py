"""httpload against a server that answers what the test wants: it sends its requests in turn, believes lengths, opens a new
connection where an answer ends the old one, and says what was refused."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench import native

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

SECONDS = "0.2"


class Server:
    """Answers each request, which ends with a dot, with what `answer` makes of it."""

    def __init__(self, answer: Callable[[bytes], bytes], *, closing: bool) -> None:
        self.seen: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._closing = closing
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        data = b""
        with link, suppress(OSError):
            while piece := link.recv(65_536):
                data += piece
                while b"." in data:
                    request, data = data.split(b".", 1)
                    self.seen.append(request)
                    link.sendall(self._answer(request))
                    if self._closing:
                        return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(answer: Callable[[bytes], bytes], *, closing: bool = False) -> Server:
        made.append(Server(answer, closing=closing))
        return made[-1]

    yield make
    for server in made:
        server.close()


def run(server: Server, folder: Path, *requests: bytes, connections: int = 1) -> dict[str, float]:
    files = []
    for number, request in enumerate(requests):
        files.append(folder / str(number))
        files[-1].write_bytes(request)
    words = [native.httpload(), "127.0.0.1", server.port, connections, SECONDS, os.getpid(), *files]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=30, check=True)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def answer(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), more, body)


def test_requests_are_sent_in_turn_and_their_answers_counted(serve, tmp_path):
    server = serve(lambda request: answer(b"ok"))
    said = run(server, tmp_path, b"one.", b"two.", b"three.")
    assert server.seen[:6] == [b"one", b"two", b"three"] * 2
    assert said["refused"] == 0
    assert len(server.seen) - 1 <= said["answers"] <= len(server.seen)  # the last one need not have been answered


def test_a_body_of_any_size_is_read_to_its_end(serve, tmp_path):
    server = serve(lambda request: answer(bytes(3_000_000)))
    said = run(server, tmp_path, b"one.")
    assert said["answers"] >= 1
    assert said["body_bytes"] % 3_000_000 == 0


def test_an_answer_that_ends_the_connection_is_followed_by_another_connection(serve, tmp_path):
    server = serve(lambda request: answer(b"ok", more=b"Connection: close\r\n"), closing=True)
    said = run(server, tmp_path, b"one.", connections=2)
    assert server.connections >= said["answers"] > 2


def test_what_is_not_2xx_is_counted_as_refused(serve, tmp_path):
    server = serve(lambda request: answer(b"no", b"400 Bad Request"))
    said = run(server, tmp_path, b"one.")
    assert said["refused"] == said["answers"] > 0
