"""However a stream of bytes is cut into pieces, the same exchanges come of it; and nothing that comes raises or stays."""

from __future__ import annotations

import asyncio
import struct
from itertools import pairwise
from typing import Any

import pytest
from hpack import Encoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.web.http2_client import PREFACE, frame

from headrace.web.exchange import Exchange
from headrace.web.first_bytes import FirstBytes
from headrace.web.limits import Limits
from headrace.web.server import WebServer

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class FakeTransport:
    """Takes everything at once; tells its protocol that it is closed in the next turn, as real ones do."""

    def __init__(self) -> None:
        self.wrote = b""
        self.closing = False
        self.reading = True
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        if not self.closing:
            self.wrote += data

    def write_eof(self) -> None:
        pass

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None


class Seen:
    def __init__(self, later: bool) -> None:
        self.later = later
        self.exchanges: list[tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]] = []
        self.open = 0

    def handler(self, exchange: Exchange) -> None:
        self.open += 1
        exchange.on_gone = self.gone

        def whole(body: bytes) -> None:
            self.exchanges.append((exchange.method, exchange.target, exchange.headers, body))
            if self.later:
                asyncio.get_running_loop().call_soon(answer, body)
            else:
                answer(body)

        def answer(body: bytes) -> None:
            if not exchange.gone:
                self.open -= 1
            exchange.respond(200, [(b"x", exchange.target[:100])], body[:1000])

        def too_large() -> None:
            self.open -= 1
            exchange.respond(413, [], b"")

        exchange.collect(100_000, whole, too_large)

    def gone(self) -> None:
        self.open -= 1


async def talk(pieces: list[bytes], later: bool) -> tuple[Seen, bytes, WebServer]:
    seen = Seen(later)
    server = WebServer(seen.handler, Limits())
    transport = FakeTransport()
    transport.protocol = FirstBytes(server)
    transport.protocol.connection_made(transport)
    for piece in pieces:
        for _ in range(1000):
            if transport.reading:
                break
            await asyncio.sleep(0)
        if transport.closing:
            break
        transport.protocol.data_received(piece)
    for _ in range(200):  # turns for answers that come later
        await asyncio.sleep(0)
    transport.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert server.open_connections == 0
    assert server.collecting_bytes == 0
    assert seen.open == 0
    if server._looking is not None:
        server._looking.cancel()
    return seen, transport.wrote, server


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(places) if begin < end]


def without_date(wrote: bytes) -> bytes:
    return b"\r\n".join(line for line in wrote.split(b"\r\n") if not line.startswith(b"date: "))


names = st.text("abcdefxyzABC-", min_size=1, max_size=10).map(lambda text: b"x" + text.encode())
values = st.text("abc :;=/\t09", max_size=20).map(lambda text: text.strip().encode())
bodies = st.one_of(st.binary(max_size=60), st.just(b"\r\n\r\n" * 5), st.just(b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    headers = b"".join(b"%b: %b\r\n" % pair for pair in draw(st.lists(st.tuples(names, values), max_size=4)))
    body = draw(bodies)
    kind = draw(st.sampled_from(["none", "length", "chunks", "upgrade", "upgrade length", "upgrade chunks"]))
    empty_lines = draw(st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]))
    head = empty_lines + b"%b /%d HTTP/1.1\r\nHost: h\r\n%b"
    head %= (draw(st.sampled_from([b"GET", b"POST", b"DELETE"])), draw(st.integers(0, 99)), headers)
    if "upgrade" in kind:
        head += b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    if "length" in kind:
        return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    if "chunks" in kind:
        cuts = draw(st.lists(st.integers(0, 60), max_size=3))
        extension = draw(st.sampled_from([b"", b";a=b"]))
        chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in split(body, cuts))
        trailers = draw(st.sampled_from([b"", b"T: u\r\n", b"T: u\r\nV: w\r\n"]))
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"
    return head + b"\r\n"


cuts = st.lists(st.integers(0, 100_000), max_size=30)


@FEW
@given(st.lists(requests(), min_size=1, max_size=6), cuts, st.booleans())
def test_any_split_of_http1_gives_the_same_exchanges(sent: list[bytes], cuts: list[int], later: bool) -> None:
    data = b"".join(sent)
    whole, wrote, _ = asyncio.run(talk([data], False))
    pieces, pieces_wrote, _ = asyncio.run(talk(split(data, cuts), later))
    assert len(whole.exchanges) == len(sent)
    assert pieces.exchanges == whole.exchanges
    assert without_date(pieces_wrote) == without_date(wrote)


@FEW
@given(st.lists(requests(), min_size=1, max_size=3), st.binary(min_size=1, max_size=6), st.integers(0, 10_000), cuts)
def test_http1_that_is_damaged_never_raises_and_splits_alike(
    sent: list[bytes], damage: bytes, at: int, cuts: list[int]
) -> None:
    data = b"".join(sent)
    at %= len(data)
    data = data[:at] + damage + data[at + len(damage) :]
    whole, wrote, _ = asyncio.run(talk([data], False))
    pieces, pieces_wrote, _ = asyncio.run(talk(split(data, cuts), False))
    assert pieces.exchanges == whole.exchanges
    assert without_date(pieces_wrote) == without_date(wrote)


@FEW
@given(st.lists(st.binary(max_size=200), max_size=10), st.booleans(), st.booleans())
def test_garbage_never_raises_and_leaves_nothing(pieces: list[bytes], http2: bool, later: bool) -> None:
    asyncio.run(talk([PREFACE + frame(4, 0, 0), *filter(None, pieces)] if http2 else list(filter(None, pieces)), later))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_a_pipeline_in_pieces_of_the_same_size(size: int) -> None:
    data = b"".join(
        b"POST /%d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n" % n for n in range(20)
    )
    seen, _, _ = asyncio.run(talk([data[at : at + size] for at in range(0, len(data), size)], True))
    assert [(target, body) for _, target, _, body in seen.exchanges] == [(b"/%d" % n, b"\r\n\r\n") for n in range(20)]


# --- HTTP/2

FIELDS = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"h")]
BETWEEN = [b"", frame(6, 0, 0, b"12345678"), frame(8, 0, 0, b"\0\0\0\1"), frame(99, 0, 0, b"x")]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A conversation that is fine, of several streams."""
    encoder = Encoder()
    said = [PREFACE, frame(4, 0, 0, struct.pack(">HI", 4, 100_000))]
    for stream in range(1, 2 * draw(st.integers(1, 6)), 2):
        block = encoder.encode([*FIELDS, *draw(st.lists(st.tuples(names.map(bytes.lower), values), max_size=3))])
        body = draw(bodies)
        at = draw(st.integers(0, len(block)))
        if draw(st.booleans()):
            said += [frame(1, 0, stream, block[:at]), frame(9, 4, stream, block[at:])]
        else:
            said.append(frame(1, 4, stream, block))
        padded = bytes((5,)) + body + b"\0" * 5
        said.append(frame(0, 9, stream, padded) if draw(st.booleans()) else frame(0, 1, stream, body))
        said.append(draw(st.sampled_from(BETWEEN)))
    return b"".join(said)


@FEW
@given(frames(), cuts, st.booleans())
def test_any_split_of_http2_gives_the_same_exchanges(data: bytes, cuts: list[int], later: bool) -> None:
    whole, _, _ = asyncio.run(talk([data], False))
    pieces, _, server = asyncio.run(talk(split(data, cuts), later))
    assert whole.exchanges
    assert pieces.exchanges == whole.exchanges
    assert server.refused_total == 0


@FEW
@given(frames(), st.binary(min_size=1, max_size=6), st.integers(0, 10_000), cuts, st.booleans())
def test_http2_that_is_damaged_never_raises_and_splits_alike(
    data: bytes, damage: bytes, at: int, cuts: list[int], later: bool
) -> None:
    at = at % (len(data) - 24) + 24
    data = data[:at] + damage + data[at + len(damage) :]
    whole, _, _ = asyncio.run(talk([data], False))
    pieces, _, _ = asyncio.run(talk(split(data, cuts), False))
    assert pieces.exchanges == whole.exchanges
    asyncio.run(talk(split(data, cuts), later))
