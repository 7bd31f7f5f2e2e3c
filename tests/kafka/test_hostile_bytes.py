"""Bad input over real sockets: whatever a peer sends or refuses to read, it is told so or cut off, with one line in the log;
the server's memory stays bounded, and a well-behaved client is served as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator

import crc32c
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import HeadraceServer, wait_until

DEADLINE_S = 20.0
MAX_REQUEST_BYTES = 104_857_600  # socket.request.max.bytes
PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 18, 19
CORRUPT_MESSAGE, UNSUPPORTED_VERSION, POLICY_VIOLATION, INVALID_RECORD = 2, 35, 44, 87


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=headrace_settings) as server:
        yield server
        assert "Traceback" not in server.log_text()


@pytest.fixture
def connect(server: HeadraceServer) -> Iterator[Callable[..., socket.socket]]:
    opened: list[socket.socket] = []

    def make(receive_buffer_bytes: int = 0) -> socket.socket:
        link = socket.socket()
        if receive_buffer_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        link.settimeout(DEADLINE_S)
        host, port = server.kafka.rsplit(":", 1)
        link.connect((host, int(port)))
        opened.append(link)
        return link

    yield make
    for link in opened:
        link.close()


@pytest.fixture(scope="module")
def topic(server: HeadraceServer) -> str:
    """A topic with 8 MB in it."""
    name = f"hostile-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": server.kafka})
    for _ in range(16):
        producer.produce(name, random.Random(1).randbytes(500_000), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    return name


@pytest.fixture(autouse=True)
def others_go_on(server: HeadraceServer) -> Iterator[None]:
    """After each test a well-behaved client writes a record and reads it back."""
    yield
    write_and_read(server, b"fine")


def write_and_read(server: HeadraceServer, value: bytes) -> None:
    topic = f"good-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": server.kafka, "acks": "all"})
    producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(DEADLINE_S)
    consumer.close()
    assert message is not None
    assert message.value() == value


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation: int = 7, client: bytes = b"hostile") -> bytes:
    flexible = b"\x00" if (key, version) in {(API_VERSIONS, 3)} else b""
    return struct.pack(">hhih", key, version, correlation, len(client)) + client + flexible


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def ask(link: socket.socket, body: bytes) -> bytes:
    """The answer to one request, without its length and correlation id."""
    link.sendall(frame(body))
    (size,) = struct.unpack(">i", receive(link, 4))
    answer = receive(link, size)
    assert answer[:4] == body[4:8]
    return answer[4:]


def receive(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = link.recv(size - len(data))
        assert piece, "the server closed the connection"
        data += piece
    return bytes(data)


def is_closed(link: socket.socket) -> bool:
    """Waits for the server to close; an answer in its place is a failure."""
    try:
        return link.recv(1) == b""
    except ConnectionError:
        return True


def lines_about(server: HeadraceServer, link_port: int) -> list[str]:
    pattern = re.compile(rf"\b127\.0\.0\.1:{link_port}\b")
    return [line for line in server.log_text().splitlines() if pattern.search(line)]


def produce_request(topic: str, records: bytes) -> bytes:
    """Produce version 7, acks=all, one partition."""
    return (
        header(PRODUCE, 7)
        + struct.pack(">hhii", -1, -1, 10_000, 1)  # no transactional id, acks, timeout, topics
        + string(topic)
        + struct.pack(">iii", 1, 0, len(records))
        + records
    )


def fetch_request(topic: str, max_bytes: int = 50_000_000, wait_ms: int = 0) -> bytes:
    """Fetch version 4, one partition from its start."""
    return (
        header(FETCH, 4)
        + struct.pack(">iiiibi", -1, wait_ms, 1, max_bytes, 0, 1)
        + string(topic)
        + struct.pack(">iiqi", 1, 0, 0, max_bytes)
    )


def batch(value: bytes = b"v", count: int = 1, crc_error: int = 0) -> bytes:
    """A record batch v2 of one record; `count` is what its header says."""
    record = b"\x00\x00\x00\x01" + bytes([2 * len(value)]) + value + b"\x00"
    records = bytes([2 * len(record)]) + record
    rest = struct.pack(">hiqqqhii", 0, count - 1, 1000, 1000, -1, -1, -1, count) + records
    checked = struct.pack(">I", crc32c.crc32c(rest) ^ crc_error) + rest
    return struct.pack(">qiib", 0, 4 + 1 + len(checked), -1, 2) + checked


def produce_error(answer: bytes, topic: str) -> int:
    """The error code of a one-partition Produce answer, versions 5 to 7."""
    at = 4 + 2 + len(topic) + 4 + 4
    return int(struct.unpack_from(">h", answer, at)[0])


BAD_FRAMES = {
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(2**31)),
    "no length": struct.pack(">i", 0),
    "a length just over the limit": struct.pack(">i", MAX_REQUEST_BYTES + 1),
    "the largest length": struct.pack(">i", 2**31 - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100f8010000f40303") + bytes(200),
    "an AMQP greeting": b"AMQP\x00\x00\x09\x01",
    "an SSH greeting": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "less than a header": frame(b"\x00\x03"),
    "an unknown API": frame(header(9999, 0)),
    "a negative API": frame(header(-1, 0)),
    "a version from the future": frame(header(METADATA, 99)),
    "a version from the past": frame(header(PRODUCE, 0)),
    "a negative version": frame(header(METADATA, -1)),
    "a client id beyond the end": frame(struct.pack(">hhih", METADATA, 1, 7, 32_000) + b"short"),
    "a body that is missing": frame(header(METADATA, 1)),
    "an array that lies about its length": frame(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "a string beyond the end": frame(header(METADATA, 1) + struct.pack(">ih", 1, 30_000) + b"x"),
    "a varint that never ends": frame(header(API_VERSIONS, 3) + b"\xff" * 20),
    "a compact string beyond the end": frame(header(API_VERSIONS, 3) + b"\xff\xff\xff\xff\x0f" + b"x"),
    "tagged fields without end": frame(header(API_VERSIONS, 3) + b"\x02x\x02y" + b"\xff\xff\xff\xff\x07"),
    "records beyond the end": frame(produce_request("t", batch())[:-20]),
    "a lying number of topics": frame(header(PRODUCE, 7) + struct.pack(">hhii", -1, -1, 10, 2**30)),
    "a lying number of partitions": frame(
        header(FETCH, 4) + struct.pack(">iiiibi", -1, 0, 1, 100, 0, 1) + string("t") + struct.pack(">i", 2**30)
    ),
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_bad_frame_closes_the_connection_with_one_line_in_the_log(data, server, connect):
    def lines_told() -> int:
        link = connect()
        port = link.getsockname()[1]
        told = len(lines_about(server, port))  # a connection of a test before may have had this port
        link.sendall(data)
        assert is_closed(link)
        return len(lines_about(server, port)) - told

    # The line comes before the end; but the tests before may have had all of this second's (`headrace.logs`).
    assert wait_until(lines_told, timeout_s=DEADLINE_S, what="a line in the log") == 1


def test_an_unknown_version_of_api_versions_is_told_which_there_are(connect):
    link = connect()
    answer = ask(link, struct.pack(">hhih", API_VERSIONS, 99, 7, -1))  # KIP-511
    code, count = struct.unpack_from(">hi", answer)
    assert code == UNSUPPORTED_VERSION
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])}
    assert ranges[API_VERSIONS][0] == 0
    link.sendall(frame(header(API_VERSIONS, 0)))  # the connection goes on
    receive(link, 8)


WHOLE = batch()
BAD_RECORDS = {
    "a wrong checksum": (batch(crc_error=1), CORRUPT_MESSAGE),
    "an unknown magic": (WHOLE[:16] + b"\x09" + WHOLE[17:], CORRUPT_MESSAGE),
    "a negative batch length": (WHOLE[:8] + struct.pack(">i", -5) + WHOLE[12:], CORRUPT_MESSAGE),
    "noise": (random.Random(5).randbytes(300), CORRUPT_MESSAGE),
    "a batch length beyond the end": (WHOLE[:8] + struct.pack(">i", 5000) + WHOLE[12:], INVALID_RECORD),
    "a batch cut short": (WHOLE[:-3], INVALID_RECORD),
    "half a batch header": (WHOLE[:30], INVALID_RECORD),
    "no batch": (b"", INVALID_RECORD),
    "two batches": (WHOLE + WHOLE, INVALID_RECORD),
    "a count that lies": (batch(count=1000), INVALID_RECORD),
}


@pytest.mark.parametrize(("records", "expected"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_records_are_refused_as_kafka_refuses_them_and_nothing_is_stored(records, expected, server, connect, topic):
    link = connect()
    end = log_end(server, topic)
    assert produce_error(ask(link, produce_request(topic, records)), topic) == expected
    assert log_end(server, topic) == end
    assert produce_error(ask(link, produce_request(topic, batch())), topic) == 0
    assert log_end(server, topic) == end + 1


def log_end(server: HeadraceServer, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "any"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S, cached=False)[1])
    finally:
        consumer.close()


@pytest.fixture
def noise(request: pytest.FixtureRequest) -> random.Random:
    """The same in every ordinary run; `--soak` draws a new one and `--seed` repeats it."""
    seed = request.config.getoption("--seed")
    if seed is None:
        seed = random.SystemRandom().randrange(2**32) if request.config.getoption("--soak") else 20240607
    print(f"--seed {seed}")  # noqa: T201
    return random.Random(seed)


def test_random_bytes_are_survived(server, connect, noise):
    for _ in range(300):
        link = connect()
        with contextlib.suppress(ConnectionError):
            link.sendall(noise.randbytes(noise.randrange(1, 2000)))
            link.shutdown(socket.SHUT_WR)
            while link.recv(4096):
                pass
        link.close()
    assert server.running


def test_mutated_requests_are_survived(server, connect, topic, noise):
    good = [
        header(METADATA, 1) + struct.pack(">i", 1) + string(topic),
        fetch_request(topic, max_bytes=1000),
        produce_request(topic, batch()),
        header(API_VERSIONS, 0),
        header(API_VERSIONS, 3) + b"\x05test\x021\x00",
        header(CREATE_TOPICS, 2) + struct.pack(">i", 1) + string("made") + struct.pack(">ihiiib", 1, 1, 0, 0, 1000, 1),
    ]
    link = connect()
    for _ in range(3000):
        body = bytearray(noise.choice(good))
        for _ in range(noise.randrange(1, 4)):
            match noise.randrange(4):
                case 0:
                    body[noise.randrange(8, len(body))] = noise.randrange(256)
                case 1:
                    del body[noise.randrange(8, len(body)) :]
                case 2:
                    at = noise.randrange(8, len(body))
                    body[at:at] = noise.randbytes(noise.randrange(1, 9))
                case 3:
                    at = noise.randrange(8, len(body))
                    body[at : at + 4] = noise.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"])
            if len(body) < 12:
                break
        try:
            link.sendall(frame(bytes(body)))
            link.settimeout(0.001)  # answers are read only when they are there
            link.recv(65536)
        except TimeoutError:
            pass
        except ConnectionError:
            link.close()
            link = connect()
        link.settimeout(DEADLINE_S)
    assert server.running


def test_a_peer_that_vanishes_in_the_middle_of_a_frame_leaves_nothing_behind(server, connect):
    before = open_files(server)
    for n in range(100):
        link = connect()
        link.sendall(frame(bytes(1_000_000))[: 10 + n * 1000])
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close sends a reset
        link.close()
    wait_until(lambda: open_files(server) <= before + 2, timeout_s=DEADLINE_S, what="the connections to be forgotten")


def open_files(server: HeadraceServer) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def test_a_thousand_idle_connections_cost_little(server, connect):
    before = server.memory_bytes()
    links = [connect() for _ in range(1000)]
    assert ask(links[500], header(API_VERSIONS, 0))
    assert server.memory_bytes() - before < 40 * 2**20
    for link in links:
        link.close()


def test_requests_that_come_one_byte_at_a_time_are_answered(server, connect):
    request = frame(header(METADATA, 1) + struct.pack(">i", 0))
    links = [connect() for _ in range(50)]
    for position in range(len(request)):
        for link in links:
            link.sendall(request[position : position + 1])
    for link in links:
        (size,) = struct.unpack(">i", receive(link, 4))
        assert receive(link, size)[:4] == struct.pack(">i", 7)


def test_announced_frames_take_no_memory_until_they_arrive(server, connect):
    before = server.memory_bytes()
    for _ in range(200):
        connect().sendall(struct.pack(">i", MAX_REQUEST_BYTES) + bytes(10_000))
    assert ask(connect(), header(API_VERSIONS, 0))
    assert server.memory_bytes() - before < 60 * 2**20


def test_many_unfinished_frames_are_bounded_together_and_hold_up_nobody(server, connect):
    before = server.memory_bytes()
    unfinished = struct.pack(">i", 1_000_000) + bytes(999_000)
    for _ in range(700):
        link = connect()
        link.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            link.send(unfinished)
    ask(connect(), header(API_VERSIONS, 0))
    assert server.memory_bytes() - before < 700 * 2**20
    write_and_read(server, random.Random(2).randbytes(900_000))


def test_a_reader_that_never_reads_is_not_buffered_for(server, connect, topic):
    before = server.memory_bytes()
    for _ in range(10):
        link = connect(receive_buffer_bytes=4096)
        link.setblocking(False)
        request = frame(fetch_request(topic))
        with contextlib.suppress(BlockingIOError):
            for _ in range(500):
                link.send(request)
    for _ in range(20):
        ask(connect(), header(API_VERSIONS, 0))
    assert server.memory_bytes() - before < 300 * 2**20


def test_small_requests_whose_answers_nobody_reads_are_not_buffered_for(server, connect):
    before = server.memory_bytes()
    link = connect(receive_buffer_bytes=4096)
    link.setblocking(False)
    requests = frame(header(API_VERSIONS, 0)) * 1000
    end = time.monotonic() + DEADLINE_S
    blocked = 0
    while blocked < 50 and time.monotonic() < end:
        try:
            link.send(requests)
            blocked = 0
        except BlockingIOError:
            blocked += 1
            ask(connect(), header(API_VERSIONS, 0))
    assert blocked == 50, "the server went on reading from a peer that does not read"
    assert server.memory_bytes() - before < 60 * 2**20


def test_a_topic_of_a_billion_partitions_is_refused(server, connect):
    body = (
        struct.pack(">i", 1) + string("too-many") + struct.pack(">ihii", 1_000_000_000, 1, 0, 0) + struct.pack(">ib", 9000, 0)
    )
    answer = ask(connect(), header(CREATE_TOPICS, 2) + body)
    code = struct.unpack_from(">h", answer, 4 + 4 + 2 + len("too-many"))[0]
    assert code == POLICY_VIOLATION


def test_what_is_asked_for_behind_a_large_fetch_comes_behind_it(topic, connect):
    """By a reader that takes its time: the answer is still being sent from the file when the others are there."""
    link = connect(receive_buffer_bytes=16 * 1024)
    versions = header(API_VERSIONS, 0)
    link.sendall(
        (frame(fetch_request(topic, 4_000_000)) + frame(versions)) * 3 + frame(b"\x00\x12\x00\x00\x00\x00\x00\x09\xff\xff")
    )
    answers = []
    for _ in range(7):
        (size,) = struct.unpack(">i", receive(link, 4))
        answers.append(receive(link, size))
    assert answers[0] == answers[2] == answers[4]
    assert answers[1] == answers[3] == answers[5]
    assert answers[6][:4] == b"\x00\x00\x00\x09"
    assert 3_000_000 < len(answers[0]) <= 4_100_000
    value = random.Random(1).randbytes(500_000)
    assert answers[0].count(value) == 7
