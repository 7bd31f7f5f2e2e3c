"""Somebody with the console open on many pages at once, without a browser: `python -m bench.console_pages FOLDER URL PATH …`.

Each page is fetched as a browser would, and then its WebSocket is kept open, read and acknowledged (NiceGUI's messages over
Socket.IO 5, Engine.IO 4), so that the console polls the server for it and sends what has changed. The first page has the focus;
the others can be seen as well, as on so many screens, and say that the focus is elsewhere, as a browser does. Nothing is drawn:
drawing happens on the machine of whoever looks, and so would the reading. So that reading costs the server as little as if it
were there, what comes waits in the kernel until the page has its turn, every `LOOK_S`, and this program gives way to the
server, whose data is in the folder, as the console does. A connection that breaks is made again, as a browser does.

When all pages are open it prints a JSON object, and keeps them open until its standard input ends; then it prints another one
with what came.
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from headrace.console.giving_way import give_way
from headrace.console.polling import EVENT, Seen

LOOK_S = 1.0  # and pings are answered so late: with two slices in which the console is stopped, still within its patience
ACKNOWLEDGED_S = 3.0  # as NiceGUI's own script does
READY_S = 30.0
MOST_BYTES = 16 * 1024 * 1024
WAITING_BYTES = 4 * 1024 * 1024  # in the kernel
_CLIENT = re.compile(r"'client_id': '([0-9a-f-]{36})'")
_LISTENER = re.compile(rf'"listener_id":"([0-9a-f-]{{36}})","type":"{EVENT}"')
_NUMBER = re.compile(rb'"_id":(\d+)\}\]$')


@dataclass(slots=True)
class Came:
    messages: int = 0
    received_bytes: int = 0
    broken: int = 0  # connections


def fetched(url: str) -> tuple[str, str]:
    """The client that the console has made for this page, and who listens to how the page is seen."""
    with urllib.request.urlopen(url, timeout=READY_S) as answer:
        page = answer.read().decode()
    client, listener = _CLIENT.search(page), _LISTENER.search(page)
    if client is None or listener is None:
        raise SystemExit(f"{url} is no page of the console")
    return client.group(1), listener.group(1)


class OpenPage:
    def __init__(self, url: str, path: str, seen: Seen, came: Came) -> None:
        self._url = url
        self._path = path
        self._seen = seen
        self._came = came
        self._open()

    def _open(self) -> None:
        url = self._url
        self._next = 0  # the number of the next message
        self._client, self._listener = fetched(url + self._path)
        self._acknowledged_s = time.monotonic()
        self._begun = b""  # of a message in parts
        self.connected = False
        query = urlencode(
            {
                "client_id": self._client,
                "next_message_id": 0,
                "implicit_handshake": "true",
                "document_id": uuid4(),
                "tab_id": uuid4(),
                "EIO": 4,
                "transport": "websocket",
            }
        )
        host = urlsplit(url).netloc
        ours: Any = url
        where = parse_uri(f"ws://{host}/_nicegui_ws/socket.io/?{query}")
        self._protocol = ClientProtocol(where, origin=ours, max_size=MOST_BYTES)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING_BYTES)
        self._socket.connect((where.host, where.port))
        self._protocol.send_request(self._protocol.connect())
        self._send()

    def look(self) -> None:
        """Takes what has come."""
        for message in self._messages():
            self._take(message)
        if self._protocol.state in (State.CLOSING, State.CLOSED):
            self._socket.close()
            self._came.broken += 1
            self._open()
            return
        now_s = time.monotonic()
        if self.connected and now_s > self._acknowledged_s + ACKNOWLEDGED_S:
            self._acknowledged_s = now_s
            self._say(["ack", {"client_id": self._client, "next_message_id": self._next}])

    def _messages(self) -> Iterator[bytes]:
        try:
            while data := self._socket.recv(1 << 20, socket.MSG_DONTWAIT):
                self._protocol.receive_data(data)
            self._protocol.receive_eof()
        except BlockingIOError:
            pass
        except ConnectionError:
            self._protocol.receive_eof()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.CONT):
                self._begun += bytes(event.data)
                if event.fin:
                    yield self._begun
                    self._begun = b""
        self._send()  # answers to pings

    def _take(self, message: bytes) -> None:
        self._came.received_bytes += len(message)
        if message.startswith(b"0"):  # the transport is open
            self._text(b"40")
        elif message.startswith(b"40"):
            self.connected = True
            said = {"id": 0, "client_id": self._client, "listener_id": self._listener, "args": [json.dumps(self._seen.value)]}
            self._say(["event", said])
        elif message.startswith(b"44"):  # the console has forgotten the page
            self._protocol.receive_eof()
        elif message == b"2":  # a ping
            self._text(b"3")
        elif message.startswith(b"42"):
            self._came.messages += 1
            number = _NUMBER.search(message[-40:])
            if number is not None:
                self._next = int(number.group(1)) + 1
            if message.startswith(b'42["run_javascript"'):
                self._answer(message)

    def _answer(self, message: bytes) -> None:
        """A script that somebody waits for has found nothing."""
        asked = json.loads(message[2:])[1].get("request_id")
        if asked:
            self._say(["javascript_response", {"request_id": asked, "client_id": self._client, "result": None}])

    def _say(self, said: list[object]) -> None:
        self._text(b"42" + json.dumps(said).encode())

    def _text(self, data: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(data)
            self._send()

    def _send(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                with suppress(ConnectionError):  # reading tells, too
                    self._socket.sendall(data)


def keep_open(url: str, paths: list[str]) -> None:
    came = Came()
    pages: list[OpenPage] = []
    for path in paths:
        pages.append(OpenPage(url, path, Seen.ASIDE if pages else Seen.FOCUSED, came))
        deadline_s = time.monotonic() + READY_S
        while not pages[-1].connected:
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{path} could not be opened")
            pages[-1].look()
            time.sleep(0.01)
    print(json.dumps({"pages": len(pages)}), flush=True)
    turn = cycle(pages)
    while not select.select([sys.stdin], [], [], LOOK_S / len(pages))[0]:
        next(turn).look()
    failed = sum(not page.connected for page in pages)
    print(json.dumps({**asdict(came), "failed": failed}), flush=True)


if __name__ == "__main__":
    give_way(Path(sys.argv[1]))
    keep_open(sys.argv[2], sys.argv[3:])
