"""Bad input over real sockets: whatever a peer sends on this port or refuses to read, it is told so or cut off; the server's
memory stays bounded, and a well-behaved client is served as if nothing had happened."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests.kinesis.campaign.client import Client

from headrace.testing import HeadraceServer

STREAM = "hostile"
MIB = 1024 * 1024
DEADLINE_S = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
JSON = "application/x-amz-json-1.1"


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=headrace_settings) as server:
        Client(server.kinesis).call("CreateStream", StreamName=STREAM, ShardCount=1)
        yield server
        assert server.running
        assert "Traceback" not in server.log_text()


@pytest.fixture(autouse=True)
def others_go_on(server: HeadraceServer) -> Iterator[None]:
    """During each test another client is connected, and after it that client writes a record and reads it back."""
    client = Client(server.kinesis)
    client.call("ListStreams")
    yield
    works(client)
    client.close()


def works(client: Client) -> None:
    data = random.randbytes(9)
    said = client.call("PutRecord", StreamName=STREAM, PartitionKey="k", Data=data)
    where = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": said["SequenceNumber"]}
    iterator = client.call("GetShardIterator", StreamName=STREAM, ShardId=said["ShardId"], **where)["ShardIterator"]
    assert [record["Data"] for record in client.call("GetRecords", ShardIterator=iterator)["Records"]] == [data]


@pytest.fixture
def connect(server: HeadraceServer) -> Iterator[Callable[..., socket.socket]]:
    opened: list[socket.socket] = []

    def make(receive_buffer_bytes: int = 0) -> socket.socket:
        link = socket.socket()
        if receive_buffer_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        link.settimeout(DEADLINE_S)
        place = urlsplit(server.kinesis)
        link.connect((place.hostname, place.port))
        opened.append(link)
        return link

    yield make
    for link in opened:
        link.close()


def everything(link: socket.socket) -> bytes:
    """What is sent until the server closes."""
    said = bytearray()
    try:
        while piece := link.recv(65536):
            said += piece
    except ConnectionError:
        pass
    return bytes(said)


def send(link: socket.socket, data: bytes) -> None:
    """As much as the server takes before it closes."""
    try:
        link.sendall(data)
    except ConnectionError:
        pass


def head(operation: str, *lines: str) -> bytes:
    base = [
        "POST / HTTP/1.1",
        "Host: localhost",
        f"X-Amz-Target: Kinesis_20131202.{operation}",
        f"Content-Type: {JSON}",
    ]
    return "\r\n".join([*base, *lines, "", ""]).encode("latin-1")


def status_of(answer: bytes) -> int:
    assert answer[:9] == b"HTTP/1.1 ", answer[:200]
    return int(answer[9:12])


# --- what is no HTTP, or bad HTTP

CLOSING = {
    "a TLS hello": bytes.fromhex("16030100f8010000f40303") + bytes(200),
    "an SSH greeting": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "an AMQP greeting": b"AMQP\x00\x00\x09\x01",
    "a Kafka request": struct.pack(">ihhih", 14, 3, 1, 7, 0) + bytes(4),
    "zeros": bytes(100),
    "noise": random.Random(1).randbytes(500),
    "lines": b"hello\r\nworld\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "a version from the future": b"POST / HTTP/3.0\r\nHost: x\r\n\r\n",
    "no host": b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two hosts": b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
    "a name with a space": b"POST / HTTP/1.1\r\nHost: x\r\nContent Length: 1\r\n\r\n",
    "a space before the colon": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 1\r\n\r\nx",
    "a folded header": b"POST / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n 2\r\n\r\n",
    "a NUL in a header": b"POST / HTTP/1.1\r\nHost: x\r\nX-A: 1\x002\r\n\r\n",
    "a negative length": head("ListStreams", "Content-Length: -1"),
    "a length with a sign": head("ListStreams", "Content-Length: +2") + b"{}",
    "a length in hex": head("ListStreams", "Content-Length: 0x2") + b"{}",
    "a length beyond every number": head("ListStreams", f"Content-Length: {10**30}"),
    "two lengths": head("ListStreams", "Content-Length: 2", "Content-Length: 3") + b"{}",
    "a list of lengths": head("ListStreams", "Content-Length: 2, 3") + b"{}",
    "a length and chunks": head("ListStreams", "Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunks that are not last": head("ListStreams", "Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "an unknown coding": head("ListStreams", "Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "a chunk size that is no number": head("ListStreams", "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n",
    "a chunk size beyond every number": head("ListStreams", "Transfer-Encoding: chunked") + b"f" * 17 + b"\r\n",
    "a negative chunk size": head("ListStreams", "Transfer-Encoding: chunked") + b"-2\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than it says": head("ListStreams", "Transfer-Encoding: chunked") + b"1\r\n{}\r\n0\r\n\r\n",
    "a header without end": b"POST / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000,
    "a target without end": b"POST /" + b"a" * 200_000,
    "headers without end": b"POST / HTTP/1.1\r\nHost: x\r\n" + b"X-A: 1\r\n" * 20_000,
    "a chunk extension without end": head("ListStreams", "Transfer-Encoding: chunked") + b"2;" + b"a" * 200_000,
    "trailers without end": head("ListStreams", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n" + b"X-A: 1\r\n" * 20_000,
}


@pytest.mark.parametrize("data", CLOSING.values(), ids=CLOSING)
def test_what_is_no_http_or_bad_http_is_refused_and_closed(data, connect):
    link = connect()
    send(link, data)
    answer = everything(link)
    assert answer == b"" or 400 <= status_of(answer) < 600


def test_random_bytes_never_do_more_than_close_their_connection(connect, server):
    chance = random.Random(7)
    for number in range(60):
        link = connect()
        if number % 3 == 1:
            send(link, PREFACE)
        elif number % 3 == 2:
            send(link, head("PutRecords", "Transfer-Encoding: chunked"))
        for _ in range(4):
            send(link, chance.randbytes(chance.choice([1, 9, 100, 5000])))
        link.close()
    works(Client(server.kinesis))


# --- sizes and slowness


@pytest.mark.parametrize("operation", ["PutRecords", "PutRecord", "CreateStream", "Nothing"])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(operation, connect, server):
    link = connect()
    send(link, head(operation, f"Content-Length: {2**40}"))
    assert status_of(everything(link)) == 413


@pytest.mark.parametrize("operation", ["PutRecords", "CreateStream"])
def test_a_body_that_grows_too_large_is_refused_and_memory_stays_bounded(operation, connect, server):
    before = server.memory_bytes()
    link = connect()
    send(link, head(operation, "Transfer-Encoding: chunked"))
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for _ in range(200):
        try:
            link.sendall(chunk)
        except ConnectionError:
            break
    else:
        pytest.fail("the server took 200 MiB")
    assert server.memory_bytes() < before + 60 * MIB


def test_the_largest_requests_that_aws_takes_are_taken(server):
    client = Client(server.kinesis)
    half = bytes(MIB // 2 - 10)
    records = [{"PartitionKey": f"key-{number}", "Data": half} for number in range(10)]
    assert client.call("PutRecords", StreamName=STREAM, Records=records)["FailedRecordCount"] == 0
    client.call("PutRecord", StreamName=STREAM, PartitionKey="k", Data=bytes(MIB - 1))


def test_bodies_that_never_end_keep_nobody_from_being_served(connect, server):
    before = server.memory_bytes()
    for _ in range(100):
        link = connect()
        send(link, head("PutRecords", f"Content-Length: {8 * MIB}") + b'{"StreamName": "' + b"x" * 100_000)
    for _ in range(100):
        send(connect(), b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    works(Client(server.kinesis))
    assert server.memory_bytes() < before + 60 * MIB


def test_a_body_byte_by_byte_is_served(connect):
    link = connect()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in head("ListStreams", "Content-Length: 2", "Connection: close") + b"{}":
        link.sendall(bytes([byte]))
    answer = everything(link)
    assert status_of(answer) == 200
    assert STREAM in json.loads(answer.partition(b"\r\n\r\n")[2])["StreamNames"]


def test_who_leaves_in_the_middle_of_a_body_stores_nothing(connect, server):
    client = Client(server.kinesis)
    client.call("CreateStream", StreamName="left", ShardCount=1)
    body = json.dumps({"StreamName": "left", "PartitionKey": "k", "Data": "AAAA"}).encode()
    for _ in range(50):
        link = connect()
        send(link, head("PutRecord", f"Content-Length: {len(body) + 1}") + body)
        link.close()
    where = {"StreamName": "left", "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.call("GetShardIterator", **where)["ShardIterator"]
    assert client.call("GetRecords", ShardIterator=iterator)["Records"] == []


def full_stream(client: Client, name: str) -> str:
    """A stream with 8 MiB in it; an iterator at its beginning."""
    client.call("CreateStream", StreamName=name, ShardCount=1)
    data = random.Random(1).randbytes(MIB // 2)
    for _ in range(2):
        client.call("PutRecords", StreamName=name, Records=[{"PartitionKey": "k", "Data": data}] * 8)
    where = {"StreamName": name, "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator: str = client.call("GetShardIterator", **where)["ShardIterator"]
    return iterator


def test_a_subscriber_that_does_not_read_costs_no_more_than_its_buffers(connect, server):
    client = Client(server.kinesis)
    full_stream(client, "unread-subscription")
    arn = client.call("DescribeStreamSummary", StreamName="unread-subscription")["StreamDescriptionSummary"]["StreamARN"]
    before = server.memory_bytes()
    for number in range(10):
        consumer = client.call("RegisterStreamConsumer", StreamARN=arn, ConsumerName=f"c{number}")["Consumer"]["ConsumerARN"]
        given = {"ConsumerARN": consumer, "ShardId": "shardId-000000000000", "StartingPosition": {"Type": "TRIM_HORIZON"}}
        body = json.dumps(given).encode()
        link = connect(receive_buffer_bytes=4096)
        send(link, head("SubscribeToShard", f"Content-Length: {len(body)}") + body)
        assert link.recv(12) == b"HTTP/1.1 200"
    works(client)
    assert server.memory_bytes() < before + 10 * 16 * MIB


def test_readers_that_do_not_read_are_bounded_together(connect, server):
    iterator = full_stream(Client(server.kinesis), "unread")
    body = json.dumps({"ShardIterator": iterator}).encode()
    request = head("GetRecords", f"Content-Length: {len(body)}") + body
    before = server.memory_bytes()
    for _ in range(60):
        link = connect(receive_buffer_bytes=4096)
        send(link, request * 3)  # 180 × 8 MiB, if they were all made
    client = Client(server.kinesis)
    for _ in range(20):
        works(client)
    assert server.memory_bytes(peak=True) < before + 250 * MIB
