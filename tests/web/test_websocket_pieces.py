"""WebSockets: any bytes, in any pieces."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.web.websocket_frames import BINARY, CONTINUED, KEY, PING, PONG, TEXT, frame

from headrace.web import websocket


class FakeTransport:
    def __init__(self) -> None:
        self.written = b""
        self.ended = self.reading = False

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.ended

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True


class FakeExchange:
    method, target, headers, peer, local, http2, gone = b"GET", b"/s", [], ("127.0.0.1", 1), ("127.0.0.1", 2), False, False

    def __init__(self, rest: bytes) -> None:
        self.transport = FakeTransport()
        self._rest = rest
        self.protocol: Any = None
        self.on_gone: Any = None

    def header(self, name: bytes) -> bytes | None:
        return KEY if name == b"sec-websocket-key" else None

    def upgrade(self, protocol: Any) -> Any:
        self.protocol = protocol
        return self.transport, self._rest


def taken(pieces: list[bytes]) -> tuple[list[Any], FakeExchange]:
    """What an application gets that takes everything, until nothing more comes."""
    exchange = FakeExchange(pieces[0])
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            got.append(await receive())
            if got[-1]["type"] == "websocket.disconnect":
                return

    async def main() -> None:
        serving_it = asyncio.create_task(websocket.Sockets().serve(exchange, app))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        for piece in pieces[1:]:
            exchange.protocol.data_received(piece)
        for _ in range(sum(map(len, pieces)) // 100 + 50):
            await asyncio.sleep(0)
        exchange.protocol.connection_lost(None)
        await serving_it

    asyncio.run(main())
    return got, exchange


messages = st.lists(
    st.one_of(st.text(max_size=300), st.binary(max_size=300), st.integers(0, 70_000).map(lambda size: b"x" * size)), max_size=20
)


@given(messages, st.data())
@settings(max_examples=60, deadline=None)
def test_messages_arrive_the_same_in_whatever_pieces_and_fragments_they_come(
    sent: list[str | bytes], data: st.DataObject
) -> None:
    stream = bytearray()
    for message in sent:
        payload = message.encode() if isinstance(message, str) else message
        cuts = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=3)))
        parts = [payload[first:last] for first, last in pairwise([0, *cuts, len(payload)])]
        for place, part in enumerate(parts):
            opcode = CONTINUED if place else TEXT if isinstance(message, str) else BINARY
            stream += frame(opcode, part, final=place == len(parts) - 1)
            if data.draw(st.booleans()):
                stream += frame(PING, b"p")
    ends = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    got, exchange = taken([bytes(stream[first:last]) for first, last in pairwise([0, *ends, len(stream)])])
    assert [message.get("text", message.get("bytes")) for message in got[:-1]] == sent
    assert got[-1] == {"type": "websocket.disconnect", "code": 1006, "reason": ""}
    assert exchange.transport.written.count(frame(PONG, b"p").replace(b"\x81\0\0\0\0", b"\x01")) == stream.count(
        frame(PING, b"p")
    )


@given(
    st.lists(st.one_of(st.binary(max_size=200), st.binary(max_size=50).map(lambda payload: frame(TEXT, payload))), min_size=1)
)
@settings(max_examples=200, deadline=None)
def test_whatever_bytes_come_nothing_breaks(pieces: list[bytes]) -> None:
    got, exchange = taken(pieces)
    assert got[-1]["type"] == "websocket.disconnect"
    assert exchange.transport.written.startswith(b"HTTP/1.1 101 ")


def test_an_application_that_ends_when_its_peer_has_gone_unnoticed_writes_nothing() -> None:
    exchange = FakeExchange(b"")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        exchange.transport.ended = True  # its end was not told yet

    asyncio.run(websocket.Sockets().serve(exchange, app))  # type: ignore[arg-type]
    assert exchange.transport.written.startswith(b"HTTP/1.1 101 ")
