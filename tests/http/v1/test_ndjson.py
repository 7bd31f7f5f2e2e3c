"""Streams of lines into a topic: of any length, with backpressure, and exact about what was stored when one goes wrong."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.http.v1.topic_api import NDJSON, TopicApi, assert_problem

from headrace.record.partitioner import partition_for_key
from headrace.testing import HeadraceServer, wait_until


@pytest.fixture
def new(headrace_shared_server: HeadraceServer) -> TopicApi:
    """A name that no topic has yet."""
    return TopicApi(headrace_shared_server, f"lines-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def topic(new: TopicApi) -> TopicApi:
    return new.create(1)


def line(value: object, **more: object) -> bytes:
    return json.dumps({"value": value, **more}).encode() + b"\n"


class Stream:
    """A request whose body comes when the test wants it to."""

    def __init__(self, topic: TopicApi, query: str = "") -> None:
        host, port = topic.server.http.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        head = (
            f"POST {topic.path}{query} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n"
        )
        self.socket.sendall(head.encode() + b"\r\n")

    def send(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> tuple[int, Any]:
        self.socket.sendall(b"0\r\n\r\n")
        return self.answer()

    def answer(self) -> tuple[int, Any]:
        with self.socket, self.socket.makefile("rb") as reader:
            status = int(reader.readline().split()[1])
            length = 0
            while (header := reader.readline()) != b"\r\n":
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            return status, json.loads(reader.read(length))


def test_lines_are_stored_and_counted_for_each_partition(new: TopicApi) -> None:
    topic = new.create(4)
    sent = b"".join(line(n, key=f"k{n}") for n in range(5000))
    answer = topic.lines(sent).body
    expected: dict[int, list[int]] = {}
    for n in range(5000):
        expected.setdefault(partition_for_key(f"k{n}".encode(), 4), []).append(n)
    assert answer == {
        "count": 5000,
        "partitions": [
            {"partition": index, "count": len(values), "first_offset": 0, "last_offset": len(values) - 1}
            for index, values in sorted(expected.items())
        ],
    }
    for index, values in expected.items():
        assert topic.values(partition=index, limit=10_000) == values


@pytest.mark.parametrize("body", [b"", b"\n", b"\r\n \n"])
def test_a_stream_without_events_stores_none(topic: TopicApi, body: bytes) -> None:
    assert topic.lines(body).body == {"count": 0, "partitions": []}


def test_blank_lines_carriage_returns_and_a_last_line_without_a_break_are_taken(topic: TopicApi) -> None:
    answer = topic.lines(b'\n{"value":1}\r\n\r\n  \n{"value":2}\n\n{"value":3}')
    assert answer.body["count"] == 3
    assert topic.values() == [1, 2, 3]


def test_what_has_come_can_be_read_before_the_stream_ends(topic: TopicApi) -> None:
    stream = Stream(topic)
    for number in range(3):
        stream.send(line(number))
        wait_until(lambda: len(topic.values()) == number + 1)  # noqa: B023
    stream.send(b'{"value": "in')
    stream.send(b' pieces"}')
    assert stream.end() == (
        200,
        {"count": 4, "partitions": [{"partition": 0, "count": 4, "first_offset": 0, "last_offset": 3}]},
    )
    assert topic.values() == [0, 1, 2, "in pieces"]


def test_pieces_may_be_cut_anywhere(topic: TopicApi) -> None:
    sent = b"".join(line({"n": n, "text": "ä" * (n % 50)}) for n in range(300))

    def pieces() -> Iterator[bytes]:
        first, size = 0, 1
        while first < len(sent):
            yield sent[first : first + size]
            first, size = first + size, size % 997 + 13

    assert topic.lines(pieces()).body["count"] == 300
    assert [value["n"] for value in topic.values(limit=1000)] == list(range(300))


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        (b"nonsense\n", 400, "not_json"),
        (b'{"vaule": 1}\n', 400, "invalid_event"),
        (b'{"value": "\xff"}\n', 400, "not_json"),
        (b'{"value": 1}{"value": 2}\n', 400, "not_json"),
        (b'{"value": 1, "partition": 9}\n', 400, "unknown_partition"),
        (b'{"value": ' + b"[" * 20_000 + b"\n", 400, "not_json"),
        (line("x" * 1_100_000), 413, "event_too_large"),
        (line(1, timestamp=2**60), 422, "invalid_timestamp"),
    ],
)
def test_everything_before_a_bad_line_is_stored_and_said(topic: TopicApi, bad: bytes, status: int, code: str) -> None:
    good = b"\n" + b"".join(line(n) for n in range(1500))  # the first line is blank
    found = assert_problem(topic.lines(good + bad + line("never")), status, code, "line 1502")
    assert found["line"] == 1502
    stored = [{"partition": 0, "count": 1500, "first_offset": 0, "last_offset": 1499}]
    assert found["stored"] == {"count": 1500, "partitions": stored}
    assert "unknown" not in found
    assert topic.values(limit=10_000) == list(range(1500))


def test_a_line_that_never_ends_is_cut_off(headrace_factory: Any) -> None:
    server = headrace_factory(durability="memory", headrace_http_max_body_bytes=100_000)
    topic = TopicApi(server, "long").create(1)
    stream = Stream(topic)
    stream.send(line(1))
    for _ in range(3):
        stream.send(b"x" * 50_000)
    status, found = stream.answer()
    assert (status, found["code"], found["line"], found["stored"]["count"]) == (413, "line_too_long", 2, 1)


def test_a_stream_that_falls_silent_is_ended(headrace_factory: Any) -> None:
    server = headrace_factory(durability="memory", connections_max_idle_ms=300)
    topic = TopicApi(server, "silent").create(1)
    stream = Stream(topic)
    stream.send(line(1) + b'{"val')
    status, found = stream.answer()
    assert (status, found["code"], found["stored"]["count"]) == (408, "timeout", 1)


def test_a_stream_whose_peer_goes_leaves_what_came(topic: TopicApi) -> None:
    stream = Stream(topic)
    stream.send(line(1) + b'{"value": 2')
    wait_until(lambda: topic.values() == [1])
    stream.socket.close()
    topic.publish({"value": "after"})
    assert topic.values() == [1, "after"]


def test_a_stream_into_a_topic_that_is_deleted_ends(topic: TopicApi) -> None:
    stream = Stream(topic)
    stream.send(line(1))
    wait_until(lambda: topic.values() == [1])
    topic.delete()
    topic.create(1)
    stream.send(line(2))
    status, found = stream.answer()
    assert (status, found["code"], found["stored"]["count"]) == (404, "unknown_topic", 1)
    assert topic.values() == []


def test_the_query_counts_for_all_lines(new: TopicApi) -> None:
    topic = new.create(3)
    assert topic.lines(line(1) + line(2, partition=1), partition=2).body["partitions"] == [
        {"partition": 1, "count": 1, "first_offset": 0, "last_offset": 0},
        {"partition": 2, "count": 1, "first_offset": 0, "last_offset": 0},
    ]
    assert topic.lines(line(1), acks=0).status == 202
    assert topic.lines(line(1), acks=1).body["count"] == 1
    assert_problem(topic.lines(line(1), acks=7), 400, "invalid_acks")


def test_lines_that_are_read_can_be_published(new: TopicApi) -> None:
    topic = new.create(2)
    topic.publish([{"key": f"k{n}", "value": {"n": n}, "headers": [["a", None]]} for n in range(500)])
    topic.publish([{"key_base64": "/w==", "value_base64": "/w=="}, {"value": None}])
    copied = topic.read(headers={"Accept": NDJSON})
    other = TopicApi(topic.server, topic.topic + "-copy").create(2)
    assert other.lines(copied.content).body["count"] == 502
    events = topic.events(limit=10_000)
    assert other.events(limit=10_000) == events


def test_a_long_stream_takes_little_memory_and_keeps_nobody_waiting(headrace_factory: Any) -> None:
    server = headrace_factory()
    topic, other = TopicApi(server, "bulk").create(1), TopicApi(server, "other").create(1)
    other.lines(line(1) * 1000)
    before = server.memory_bytes()
    block = b"".join(line("x" * 500, key=f"k{n}") for n in range(1000))  # half a megabyte

    def send() -> None:
        assert topic.lines(block for _ in range(60)).body["count"] == 60_000

    senders = [threading.Thread(target=send) for _ in range(2)]
    for sender in senders:
        sender.start()
    published = 0
    while any(sender.is_alive() for sender in senders):
        assert other.publish({"value": published}).status == 200
        published += 1
    for sender in senders:
        sender.join()
    assert published > 0
    assert server.memory_bytes(peak=True) - before < 100_000_000
    assert topic.read(from_="latest").body["partitions"][0]["end"] == 120_000
