"""HTTP/2 from peers that mean ill, on the port that SDKs use: frames that no client sends, floods of frames that cost the
server more than the peer, windows that stay shut. The connection ends, or the stream; others are served."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded
from hpack import Encoder
from tests.kinesis.campaign.client import Client

from headrace.testing import HeadraceServer

MIB = 1024 * 1024
DEADLINE_S = 30.0
STREAM = "hostile"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK, PADDED = 1, 4, 1, 8


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=headrace_settings) as server:
        Client(server.kinesis).call("CreateStream", StreamName=STREAM, ShardCount=1)
        yield server
        assert server.running
        assert "Traceback" not in server.log_text()


@pytest.fixture
def connect(server: HeadraceServer) -> Iterator[Callable[[], socket.socket]]:
    opened: list[socket.socket] = []

    def make() -> socket.socket:
        place = urlsplit(server.kinesis)
        link = socket.create_connection((place.hostname, place.port), DEADLINE_S)
        opened.append(link)
        return link

    yield make
    for link in opened:
        link.close()


@pytest.fixture(autouse=True)
def others_go_on(connect: Callable[[], socket.socket]) -> Iterator[None]:
    """During each test another peer is connected, and is served after it."""
    peer = Peer(connect())
    assert peer.ask("ListStreams", {})[0] == 200
    yield
    assert peer.ask("DescribeStreamSummary", {"StreamName": STREAM})[0] == 200


class Peer:
    """A well-behaved one."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._http2 = H2Connection(H2Configuration(client_side=True))
        self._http2.initiate_connection()
        self._next_stream = 1

    def ask(self, operation: str, given: dict[str, object]) -> tuple[int, bytes]:
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        body = json.dumps(given).encode()
        self._http2.send_headers(stream, request_head(operation, len(body)))
        self._http2.send_data(stream, body, end_stream=True)
        status, said = 0, bytearray()
        while True:
            self._link.sendall(self._http2.data_to_send())
            data = self._link.recv(65536)
            assert data, "the server closed the connection"
            for event in self._http2.receive_data(data):
                if isinstance(event, ResponseReceived):
                    status = int(dict(event.headers)[b":status"])
                elif isinstance(event, DataReceived):
                    self._http2.acknowledge_received_data(event.flow_controlled_length, stream)
                    said += event.data
                elif isinstance(event, StreamEnded):
                    return status, bytes(said)


def request_head(operation: str, size: int) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":path", "/"),
        (":scheme", "http"),
        (":authority", "localhost"),
        ("x-amz-target", f"Kinesis_20131202.{operation}"),
        ("content-type", "application/x-amz-json-1.1"),
        ("content-length", str(size)),
    ]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def head_block(operation: str = "ListStreams", size: int = 2, *more: tuple[str, str]) -> bytes:
    return Encoder().encode([*request_head(operation, size), *more])


GREETING = PREFACE + frame(SETTINGS, 0, 0)
OPENED = GREETING + frame(HEADERS, END_HEADERS, 1, head_block())
WHOLE = OPENED + frame(DATA, END_STREAM, 1, b"{}")


def send(link: socket.socket, data: bytes) -> None:
    try:
        link.sendall(data)
    except ConnectionError:
        pass


def kinds_until_closed(link: socket.socket) -> list[int]:
    """The kinds of the frames that came until the server closed."""
    data = bytearray()
    try:
        while piece := link.recv(65536):
            data += piece
    except ConnectionError:
        pass
    kinds = []
    while len(data) >= 9:
        kinds.append(data[3])
        del data[: 9 + int.from_bytes(data[:3], "big")]
    return kinds


ENDING = {
    "a wrong preface": b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + frame(SETTINGS, 0, 0),
    "no settings first": PREFACE + frame(PING, 0, 0, bytes(8)),
    "a frame larger than was agreed": GREETING + frame(DATA, 0, 1, length=2**24 - 1),
    "settings of a wrong size": GREETING + frame(SETTINGS, 0, 0, bytes(5)),
    "settings on a stream": GREETING + frame(SETTINGS, 0, 1),
    "an acknowledgement with something in it": GREETING + frame(SETTINGS, ACK, 0, bytes(6)),
    "a window beyond what there is": GREETING + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31)),
    "frames of a size that is not allowed": GREETING + frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 100)),
    "push that is neither on nor off": GREETING + frame(SETTINGS, 0, 0, struct.pack(">HI", 2, 2)),
    "a ping of a wrong size": GREETING + frame(PING, 0, 0, bytes(7)),
    "a ping on a stream": GREETING + frame(PING, 0, 1, bytes(8)),
    "data without a stream": GREETING + frame(DATA, 0, 0, b"x"),
    "data on a stream that is not open": GREETING + frame(DATA, 0, 5, b"x"),
    "a head without a stream": GREETING + frame(HEADERS, END_HEADERS, 0, head_block()),
    "a head on a stream of the server's": GREETING + frame(HEADERS, END_HEADERS, 2, head_block()),
    "a head on an earlier stream": GREETING
    + frame(HEADERS, END_HEADERS | END_STREAM, 5, head_block())
    + frame(HEADERS, END_HEADERS | END_STREAM, 3, head_block()),
    "a continuation of nothing": GREETING + frame(CONTINUATION, END_HEADERS, 1, head_block()),
    "something between a head and its continuation": GREETING
    + frame(HEADERS, 0, 1, head_block()[:5])
    + frame(PING, 0, 0, bytes(8)),
    "a continuation on another stream": GREETING + frame(HEADERS, 0, 1, head_block()[:5]) + frame(CONTINUATION, 0, 3, b""),
    "padding longer than the frame": OPENED + frame(DATA, PADDED, 1, b"\xff{}"),
    "a head that can't be decoded": GREETING + frame(HEADERS, END_HEADERS, 1, b"\xff" * 30),
    "an index beyond the table": GREETING + frame(HEADERS, END_HEADERS, 1, b"\xbf"),
    "a table beyond what was agreed": GREETING + frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\xff\xff\x7f" + head_block()),
    "Huffman that never ends": GREETING + frame(HEADERS, END_HEADERS, 1, b"\x00\x81\xff\x81\xff"),
    "a promise": GREETING + frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + head_block()),
    "a reset of nothing": GREETING + frame(RST_STREAM, 0, 7, bytes(4)),
    "a reset of a wrong size": OPENED + frame(RST_STREAM, 0, 1, bytes(3)),
    "a window that grows by nothing": GREETING + frame(WINDOW_UPDATE, 0, 0, bytes(4)),
    "a window that grows too far": GREETING + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1)) * 2,
    "a window update of a wrong size": GREETING + frame(WINDOW_UPDATE, 0, 0, bytes(3)),
    "a goodbye of a wrong size": GREETING + frame(GOAWAY, 0, 0, bytes(3)),
    "noise": GREETING + random.Random(1).randbytes(5000),
}


@pytest.mark.parametrize("data", ENDING.values(), ids=ENDING)
def test_a_frame_that_breaks_the_protocol_ends_the_connection(data, connect):
    link = connect()
    send(link, data)
    link.shutdown(socket.SHUT_WR)
    kinds = kinds_until_closed(link)
    assert kinds == [] or kinds[0] == SETTINGS or kinds[0] not in range(10)


def huge_head() -> bytes:
    """One header of 4 KB that a single byte repeats: an HPACK bomb."""
    return b"\x40\x01a\x7f\x81\x1e" + b"b" * 4000 + b"\xbe" * 10_000


def resets() -> Iterator[bytes]:
    for stream in range(1, 40_001, 2):
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, head_block()) + frame(
            RST_STREAM, 0, stream, struct.pack(">I", 8)
        )


def continuations() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, head_block())
    for _ in range(10_000):
        yield frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x00" + b"x" * 127)


FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "pings": lambda: iter([frame(PING, 0, 0, bytes(8)) * 1000] * 100),
    "settings": lambda: iter([frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535)) * 1000] * 100),
    "priorities": lambda: iter([frame(PRIORITY, 0, 1, bytes(5)) * 1000] * 100),
    "frames of no kind": lambda: iter([frame(0xBB, 0, 0, b"x") * 1000] * 100),
    "data with nothing in it": lambda: iter([frame(HEADERS, END_HEADERS, 1, head_block()), *[frame(DATA, 0, 1) * 1000] * 100]),
    "rapid resets": resets,
    "continuations": continuations,
    "a head that repeats itself": lambda: iter([frame(HEADERS, END_HEADERS, 1, huge_head()[:16_384])] * 3),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_ends_the_connection_and_costs_no_memory(flood, connect, server):
    before = server.memory_bytes()
    link = connect()
    send(link, GREETING)
    for piece in flood():
        try:
            link.sendall(piece)
        except ConnectionError:
            break
    send(link, b"")
    try:
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    kinds_until_closed(link)
    assert server.memory_bytes() < before + 40 * MIB


def test_a_body_that_is_too_large_is_refused(connect, server):
    before = server.memory_bytes()
    link = connect()
    send(link, GREETING + frame(HEADERS, END_HEADERS, 1, head_block("CreateStream", 50 * MIB)))
    for _ in range(100):
        send(link, frame(DATA, 0, 1, bytes(16_384)))
    link.shutdown(socket.SHUT_WR)
    assert HEADERS in kinds_until_closed(link)  # 413, or the stream's reset behind it
    assert server.memory_bytes() < before + 20 * MIB


def test_answers_that_nobody_takes_are_bounded_for_a_whole_connection(connect, server):
    """A hundred streams ask for the same page of 8 MiB and open no window for it."""
    client = Client(server.kinesis)
    client.call("CreateStream", StreamName="shut", ShardCount=1)
    data = random.Random(1).randbytes(MIB // 2)
    for _ in range(2):
        client.call("PutRecords", StreamName="shut", Records=[{"PartitionKey": "k", "Data": data}] * 8)
    where = {"StreamName": "shut", "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    body = json.dumps({"ShardIterator": client.call("GetShardIterator", **where)["ShardIterator"]}).encode()
    before = server.memory_bytes()
    link = connect()
    send(link, PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    for stream in range(1, 201, 2):
        head = frame(HEADERS, END_HEADERS, stream, head_block("GetRecords", len(body)))
        send(link, head + frame(DATA, END_STREAM, stream, body))
    send(link, frame(PING, 0, 0, bytes(8)))
    peer = Peer(connect())
    for _ in range(20):
        assert peer.ask("ListStreams", {})[0] == 200
    assert server.memory_bytes(peak=True) < before + 200 * MIB
