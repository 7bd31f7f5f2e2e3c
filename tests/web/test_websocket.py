"""WebSockets over ASGI: RFC 6455 byte by byte, and peers that don't keep to it, don't read, or never end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.web.serving import Serving, fill, read_answer, serving
from tests.web.websocket_frames import BINARY, CLOSE, CONTINUED, KEY, PING, PONG, TEXT, frame
from websockets.sync.client import connect

from headrace.testing import wait_until
from headrace.web import websocket
from headrace.web.asgi import AsgiHandler

HANDSHAKE = [
    (b"Host", b"h"),
    (b"Connection", b"keep-alive, Upgrade"),
    (b"Upgrade", b"WebSocket"),
    (b"Sec-WebSocket-Version", b"13"),
    (b"Sec-WebSocket-Key", KEY),
]


def request(headers: list[tuple[bytes, bytes]] = HANDSHAKE, method: bytes = b"GET") -> bytes:
    return method + b" /s?x=1 HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in headers) + b"\r\n"


class Peer:
    """A client that reads frames of the server (which are not masked)."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._have = b""

    def _read(self, size: int) -> bytes:
        while len(self._have) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError
            self._have += piece
        found, self._have = self._have[:size], self._have[size:]
        return found

    def frame(self) -> tuple[int, bytes]:
        first, size = self._read(2)
        if size == 126:
            (size,) = struct.unpack(">H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._read(8))
        return first & 0x0F, self._read(size)

    def closed(self) -> int:
        """Reads up to the close frame; its code."""
        while True:
            opcode, payload = self.frame()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    def ended(self) -> bool:
        try:
            self._read(1)
        except (EOFError, ConnectionResetError):
            return True
        return False


class App:
    """Echoes; and notes how it ended."""

    def __init__(self) -> None:
        self.scope: Any = None
        self.messages: list[Any] = []
        self.take = asyncio.Event()
        self.take.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket"
        self.scope = scope
        assert await receive() == {"type": "websocket.connect"}
        await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
        while True:
            await self.take.wait()
            message = await receive()
            self.messages.append(message)
            if message["type"] == "websocket.disconnect":
                return
            await send({"type": "websocket.send", **{name: message[name] for name in ("text", "bytes") if name in message}})


@contextmanager
def opened(app: Any, headers: list[tuple[bytes, bytes]] = HANDSHAKE) -> Iterator[tuple[Serving, Peer]]:
    with serving(AsgiHandler(app)) as made, made.connect() as connection:
        connection.sendall(request(headers))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(1)
        assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"), answer
        assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
        yield made, Peer(connection)


def test_messages_go_both_ways_and_the_scope_says_what_was_asked() -> None:
    app = App()
    with opened(app, [*HANDSHAKE, (b"Sec-WebSocket-Protocol", b"a, b")]) as (_, peer):
        peer.socket.sendall(frame(TEXT, "grüße".encode()))
        assert peer.frame() == (TEXT, "grüße".encode())
        peer.socket.sendall(frame(BINARY, b"\xff" * 70_000))
        assert peer.frame() == (BINARY, b"\xff" * 70_000)
        assert (app.scope["subprotocols"], app.scope["path"], app.scope["query_string"]) == (["a", "b"], "/s", b"x=1")
        assert app.scope["scheme"] == "ws"


def test_a_library_of_others_speaks_with_it_and_ends_it_in_order() -> None:
    app = App()
    with serving(AsgiHandler(app)) as made:
        with connect(f"ws://127.0.0.1:{made.port}/s", subprotocols=["x"], compression="deflate") as client:
            assert (client.subprotocol, client.protocol.extensions) == ("x", [])
            for size in (0, 125, 126, 65535, 65536, 1_000_000):
                client.send("x" * size)
                assert client.recv() == "x" * size
            assert client.ping().wait(10)
            client.close(4321, "enough")
        wait_until(lambda: app.messages[-1]["type"] == "websocket.disconnect", what="the application to hear of it")
        assert app.messages[-1] == {"type": "websocket.disconnect", "code": 4321, "reason": "enough"}


def test_what_came_with_the_handshake_is_not_lost_and_fragments_are_one_message() -> None:
    with serving(AsgiHandler(App())) as made, made.connect() as connection:
        message = frame(TEXT, b"on", final=False) + frame(PING, b"p") + frame(CONTINUED, b"e")
        connection.sendall(request() + message)
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(1)
        peer = Peer(connection)
        assert [peer.frame(), peer.frame()] == [(PONG, b"p"), (TEXT, b"one")]


@pytest.mark.parametrize(
    "headers",
    [
        [pair for pair in HANDSHAKE if pair[0] != b"Sec-WebSocket-Key"],
        [pair if pair[0] != b"Sec-WebSocket-Key" else (pair[0], b"short") for pair in HANDSHAKE],
        [pair if pair[0] != b"Sec-WebSocket-Version" else (pair[0], b"8") for pair in HANDSHAKE],
        [pair if pair[0] != b"Upgrade" else (pair[0], b"h2c") for pair in HANDSHAKE],
        [pair if pair[0] != b"Connection" else (pair[0], b"close") for pair in HANDSHAKE],
    ],
    ids=["no key", "a short key", "an old version", "another protocol", "no upgrade"],
)
def test_half_a_handshake_is_an_ordinary_request(headers: list[tuple[bytes, bytes]]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 426, "headers": []})
        await send({"type": "http.response.body", "body": scope["type"].encode()})

    with serving(AsgiHandler(app)) as made, made.connect() as connection:
        connection.sendall(request(headers))
        assert read_answer(connection)[::2] == (426, b"http")


def test_a_refusal_is_an_http_answer_and_the_connection_goes_on() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"http"})
        elif scope["query_string"] == b"x=1":
            assert "websocket.http.response" in scope["extensions"]
            await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"login")]})
            await send({"type": "websocket.http.response.body", "body": b"who", "more_body": False})
        elif scope["query_string"] == b"close":
            await send({"type": "websocket.close"})
        else:
            raise ValueError("a mistake")

    with serving(AsgiHandler(app)) as made, made.connect() as connection:
        connection.sendall(request())
        status, headers, body = read_answer(connection)
        assert (status, headers[b"x-why"], body) == (401, b"login", b"who")
        connection.sendall(request().replace(b"x=1", b"close"))
        assert read_answer(connection)[0] == 403
        connection.sendall(request().replace(b"x=1", b"fail"))
        assert read_answer(connection)[0] == 500
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(connection)[2] == b"http"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\x02{}", 1002),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"\xff", final=False) + frame(CONTINUED, b"\xfe"), 1007),
        (frame(3), 1002),
        (frame(CONTINUED), 1002),
        (frame(TEXT, final=False) + frame(TEXT), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(TEXT, length=4 * 2**20 + 1), 1009),
        (frame(TEXT, length=2**62), 1009),
        (frame(TEXT, b"x" * 2**20, final=False) * 1 + frame(CONTINUED, length=3 * 2**20 + 1, final=False), 1009),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xe8"), 1000),
        (frame(CLOSE), 0),
    ],
    ids=["unmasked", "not UTF-8", "not UTF-8 in pieces", "reserved", "continuation of nothing", "a message in a message",
         "a long ping", "too long", "absurdly long", "too long in pieces", "half a code", "a close", "an empty close"],
)  # fmt: skip
def test_what_breaks_the_rules_ends_the_socket_with_its_code_and_others_go_on(sent: bytes, code: int) -> None:
    app = App()
    with opened(app) as (made, peer):
        peer.socket.sendall(sent)
        assert peer.closed() == code
        assert peer.ended()
        peer.socket.close()
        wait_until(lambda: app.messages and app.messages[-1]["type"] == "websocket.disconnect", what="the application's end")
        assert made.server.open_connections == 0 or wait_until(lambda: made.server.open_connections == 0, what="its end")


def test_an_application_that_fails_or_returns_ends_its_socket() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        if (await receive())["text"] == "fail":
            raise ValueError("a mistake")

    for sent, code in ((b"fail", 1011), (b"return", 1000)):
        with opened(app) as (_, peer):
            peer.socket.sendall(frame(TEXT, sent))
            assert peer.closed() == code


def test_a_peer_that_does_not_answer_a_close_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_WITHIN_S", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4000, "reason": "go"})

    with opened(app) as (made, peer):
        assert peer.closed() == 4000
        assert peer.ended()
        wait_until(lambda: made.server.open_connections == 0, what="the connection to be forgotten")


def test_a_peer_that_is_gone_before_it_is_accepted_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        ended.append(await receive())
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "hello"})
        await send({"type": "websocket.close"})
        ended.append(await receive())

    with serving(AsgiHandler(app)) as made:
        with made.connect() as connection:
            connection.sendall(request())
            wait_until(lambda: made.server.open_connections == 1, what="the connection")
        wait_until(lambda: len(ended) == 2, what="the application's end")
    assert [message["type"] for message in ended] == ["websocket.disconnect"] * 2
    assert "failed" not in caplog.text


def test_http_1_0_has_no_websockets() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 426, "headers": []})
        await send({"type": "http.response.body", "body": scope["type"].encode()})

    with serving(AsgiHandler(app)) as made, made.connect() as connection:
        connection.sendall(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert read_answer(connection)[::2] == (426, b"http")


# --- backpressure


def test_text_that_takes_more_bytes_than_characters_is_counted_once() -> None:
    with opened(App()) as (_, peer):
        for _ in range(20):
            peer.socket.sendall(frame(TEXT, ("ä" * 5000).encode()))
            assert peer.frame() == (TEXT, ("ä" * 5000).encode())


def test_messages_that_the_application_does_not_take_are_not_read() -> None:
    app = App()
    with opened(app) as (made, peer):
        made.call(app.take.clear)
        peer.socket.sendall(frame(TEXT, b"first"))  # the application may be waiting for this one
        taken = fill(peer.socket, frame(BINARY, b"x" * 10_000))
        assert taken < 20 * 2**20  # what the kernel buffers
        assert len(app.messages) <= 1
        made.call(app.take.set)
        assert peer.frame() == (TEXT, b"first")
        assert peer.frame() == (BINARY, b"x" * 10_000)


def test_pings_are_not_taken_from_a_peer_that_does_not_read_their_answers() -> None:
    with opened(App()) as (_, peer):
        assert fill(peer.socket, frame(PING, b"x" * 125) * 100) < 20 * 2**20


def test_a_flood_of_empty_frames_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    take = websocket.WebSocket._take
    taken = most = 0

    def count(self: websocket.WebSocket, frame: Any) -> None:
        nonlocal taken
        taken += 1
        take(self, frame)

    def turn() -> None:
        """Others, once in each turn of the event loop."""
        nonlocal taken, most
        most, taken = max(most, taken), 0
        if not app.messages:
            asyncio.get_running_loop().call_soon(turn)

    monkeypatch.setattr(websocket.WebSocket, "_take", count)
    with opened(app) as (made, peer):
        made.call(turn)
        empty = frame(CONTINUED, final=False)
        peer.socket.settimeout(None)
        peer.socket.sendall(frame(TEXT, b"x", final=False) + empty * 100_000 + frame(CONTINUED, b"y"))
        assert peer.frame() == (TEXT, b"xy")
    in_a_turn = websocket.FRAMES_A_TURN + websocket.STEP_BYTES // len(empty)
    assert 0 < most <= 2 * in_a_turn  # one that was put off, and one for what was read meanwhile


def test_long_messages_that_never_end_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_UNFINISHED_BYTES", 3 * 2**20)
    with serving(AsgiHandler(App())) as made:
        peers = []
        for _ in range(4):
            connection = made.connect()
            connection.sendall(request())
            while not connection.recv(65536).endswith(b"\r\n\r\n"):
                pass
            connection.sendall(frame(TEXT, b"x" * 2**20, final=False))
            peers.append(Peer(connection))
        assert peers[3].closed() == 1013 or peers[2].closed() == 1013
        peers[0].socket.sendall(frame(CONTINUED, b"!"))
        assert peers[0].frame() == (TEXT, b"x" * 2**20 + b"!")
        for peer in peers:
            peer.socket.close()
        wait_until(lambda: made.server.open_connections == 0, what="all of them to be gone")
        handler: Any = made.server.handler
        wait_until(lambda: handler._sockets.unfinished_bytes == 0, what="nothing to be counted any more")


def test_a_server_that_stops_ends_its_sockets_in_time() -> None:
    with opened(App()) as (made, peer):
        made.stop(0.1)
        assert peer.ended()
