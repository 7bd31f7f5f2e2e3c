"""Reading over a real socket: pages, positions, waiting, streams of lines, one record."""

from __future__ import annotations

import http.client
import json
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.http.v1.topic_api import NDJSON, TopicApi, assert_problem

from headrace.testing import HeadraceServer, wait_until

LINES = {"Accept": NDJSON}


@pytest.fixture
def new(headrace_shared_server: HeadraceServer) -> TopicApi:
    """A name that no topic has yet."""
    return TopicApi(headrace_shared_server, f"read-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def topic(new: TopicApi) -> TopicApi:
    return new.create(1)


def fill(topic: TopicApi, count: int, **more: object) -> None:
    for first in range(0, count, 1000):
        topic.publish([{"value": n, **more} for n in range(first, min(first + 1000, count))])


def trim(topic: TopicApi, before: int, partition: int = 0) -> None:
    admin = AdminClient({"bootstrap.servers": topic.server.kafka})
    for done in admin.delete_records([TopicPartition(topic.topic, partition, before)]).values():
        done.result()


# --- pages


def test_a_page_tells_where_the_next_one_begins(topic: TopicApi) -> None:
    fill(topic, 10)
    page = topic.read(limit=4).body
    assert [event["value"] for event in page["events"]] == [0, 1, 2, 3]
    assert page["partitions"] == [{"partition": 0, "start": 0, "end": 10, "next": 4}]
    assert page["notices"] == []
    page = topic.read(limit=4, position=page["next"]).body
    assert [event["value"] for event in page["events"]] == [4, 5, 6, 7]
    page = topic.read(position=page["next"]).body
    assert [event["value"] for event in page["events"]] == [8, 9]
    page = topic.read(position=page["next"]).body
    assert page["events"] == []
    topic.publish({"value": "more"})
    assert topic.values(position=page["next"]) == ["more"]


def test_all_partitions_are_read_and_each_stays_in_order(new: TopicApi) -> None:
    topic = new.create(4)
    topic.publish([{"key": f"k{n % 11}", "value": n} for n in range(2000)])
    seen: list[dict[str, Any]] = []
    position = None
    while True:
        page = topic.read(limit=333, **({} if position is None else {"position": position})).body
        if not page["events"]:
            break
        seen += page["events"]
        position = page["next"]
    assert sorted(event["value"] for event in seen) == list(range(2000))
    for index in range(4):
        assert [e["offset"] for e in seen if e["partition"] == index] == list(range(sum(e["partition"] == index for e in seen)))
    one = topic.read(partition=2, limit=10_000).body
    assert one["events"] == [event for event in seen if event["partition"] == 2]
    assert [each["partition"] for each in one["partitions"]] == [2]
    assert topic.read(partition=2, position=one["next"]).body["events"] == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"from_": "earliest"}, [0, 1, 2, 3]),
        ({"from_": "latest"}, []),
        ({"from_": "2"}, [2, 3]),
        ({"offset": "3"}, [3]),
        ({"offset": "99"}, []),
        ({"from_": "-1"}, [3]),
        ({"from_": "-99"}, [0, 1, 2, 3]),
        ({"from_": "2023-11-14T22:13:21.500Z"}, [2, 3]),
        ({"from_": "2023-11-14T23:13:21+01:00"}, [1, 2, 3]),
        ({"from_": "2099-01-01T00:00:00Z"}, []),
    ],
)
def test_reading_begins_where_it_is_told(topic: TopicApi, query: dict[str, str], expected: list[int]) -> None:
    topic.publish([{"value": n, "timestamp": 1_700_000_000_000 + n * 1000} for n in range(4)])
    assert topic.values(**query) == expected


def test_a_page_is_as_large_as_was_asked_for_but_holds_one_event(topic: TopicApi) -> None:
    topic.publish([{"value": "x" * 1000} for _ in range(10)])
    assert len(topic.values(max_bytes=2500)) == 2
    assert len(topic.values(max_bytes=1)) == 1


def test_forms_are_as_asked_for(topic: TopicApi) -> None:
    topic.publish([{"key": "k", "value": {"a": 1}}, {"value_base64": "/w=="}])
    assert topic.events(format="auto")[0]["value"] == {"a": 1}
    assert topic.events(format="text")[0]["value"] == '{"a": 1}'
    first, second = topic.events(format="base64")
    assert (first["key_base64"], first["value_base64"], second["value_base64"]) == ("aw==", "eyJhIjogMX0=", "/w==")


def test_retention_that_took_what_was_asked_for_is_told(topic: TopicApi) -> None:
    fill(topic, 10)
    page = topic.read(limit=2).body
    trim(topic, 5)
    answer = topic.read(position=page["next"]).body
    assert answer["notices"] == [{"notice": "gap", "partition": 0, "from": 2, "to": 5}]
    assert [event["value"] for event in answer["events"]] == [5, 6, 7, 8, 9]
    assert answer["partitions"][0]["start"] == 5
    assert topic.read(position=page["next"], headers=LINES).lines[0]["notice"] == "gap"


def test_only_committed_records_are_read(topic: TopicApi) -> None:
    producer = Producer({"bootstrap.servers": topic.server.kafka, "transactional.id": topic.topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic.topic, b"aborted", partition=0)
    producer.flush(10)
    topic.publish({"value": "beside"})
    assert topic.values() == []  # it stands behind a transaction that is open
    assert topic.read().body["partitions"][0]["end"] == 0
    producer.abort_transaction(10)
    producer.begin_transaction()
    producer.produce(topic.topic, b"committed", partition=0)
    producer.commit_transaction(10)
    assert wait_until(lambda: len(topic.values()) == 2 and topic.values()) == ["beside", "committed"]


def test_a_topic_that_is_made_anew_is_told_to_those_who_knew_the_old_one(topic: TopicApi) -> None:
    fill(topic, 3)
    position = topic.read().body["next"]
    topic.delete()
    topic.create(1)
    topic.publish({"value": "new"})
    page = topic.read(position=position).body
    assert [notice["notice"] for notice in page["notices"]] == ["reset"]
    assert [event["value"] for event in page["events"]] == ["new"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "10001"},
        {"limit": "x"},
        {"max_bytes": "-1"},
        {"wait_s": "61"},
        {"wait_s": "nan"},
        {"format": "xml"},
        {"follow": "true"},
        {"follow": "yes"},
        {"offset": "-1"},
        {"offset": "1", "from_": "2"},
        {"from_": "yesterday"},
        {"position": "nonsense"},
        {"partition": "x"},
        {"vaule": "1"},
    ],
)
def test_a_query_that_is_wrong_is_told(topic: TopicApi, query: dict[str, str]) -> None:
    answer = topic.read(**query)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_partition_that_is_not_there_is_unknown(topic: TopicApi) -> None:
    assert_problem(topic.read(partition=5), 404, "unknown_partition", "there are 1")
    assert_problem(topic.one(5, 0), 404, "unknown_partition")
    assert_problem(topic.one("x", 0), 400, "unknown_partition")


def test_head_has_the_headers_and_no_body(topic: TopicApi) -> None:
    answer = topic.ask("HEAD", topic.path)
    assert (answer.status, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


# --- waiting


def test_who_waits_is_woken_by_what_is_published(topic: TopicApi) -> None:
    position = topic.read().body["next"]
    with ThreadPoolExecutor() as pool:
        for number in range(20):
            waiting = pool.submit(topic.read, position=position, wait_s=30)
            topic.publish({"value": number})
            page = waiting.result(20).body
            assert [event["value"] for event in page["events"]] == [number]
            position = page["next"]


def test_who_waits_in_vain_gets_an_empty_page(topic: TopicApi) -> None:
    page = topic.read(wait_s=0.2).body
    assert page["events"] == []
    assert page["partitions"] == [{"partition": 0, "start": 0, "end": 0, "next": 0}]


def test_who_waits_is_told_of_the_end_and_forgotten_when_gone(headrace_factory: Any) -> None:
    """That somebody waits is seen from outside where only one may."""
    server = headrace_factory(durability="memory", headrace_http_max_streams=1)
    topic = TopicApi(server, "waited-for").create(1)

    def is_waiting() -> bool:
        return topic.read(wait_s=0.01, from_="latest").status == 503

    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET {topic.path}?wait_s=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_until(is_waiting)
        assert topic.publish({"value": 1}, acks=1).status == 200  # it keeps nobody else from anything
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(f"GET {topic.path}?wait_s=60&from=latest HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_until(is_waiting)
    wait_until(lambda: not is_waiting())
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            wait_until, lambda: (found := topic.read(wait_s=60, from_="latest")).status == 200 and found, timeout_s=60
        )
        wait_until(is_waiting)
        topic.delete()
        assert [notice["notice"] for notice in waiting.result(20).body["notices"]] == ["end"]


# --- lines


def test_lines_end_where_the_topic_ended_and_are_what_pages_show(new: TopicApi) -> None:
    topic = new.create(3)
    topic.publish([{"key": f"k{n}", "value": n} for n in range(3000)])
    answer = topic.read(headers=LINES)
    assert answer.headers["content-type"] == NDJSON
    assert sorted(line["value"] for line in answer.lines) == list(range(3000))
    by_place = {(e["partition"], e["offset"]): e for e in topic.events(limit=10_000)}
    assert {(line["partition"], line["offset"]): line for line in answer.lines} == by_place
    assert len(topic.read(headers=LINES, limit=10).lines) == 10
    assert [line["offset"] for line in topic.read(headers=LINES, partition=1, from_=5).lines][:2] == [5, 6]


def test_following_brings_what_comes_as_it_comes(topic: TopicApi) -> None:
    topic.publish({"value": "before"})
    host, port = topic.server.http.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", topic.path + "?follow=true", headers=LINES)
    answer = connection.getresponse()
    assert json.loads(answer.readline())["value"] == "before"
    for number in range(5):
        topic.publish({"value": number})
        assert json.loads(answer.readline())["value"] == number
    connection.close()


def test_readers_that_do_not_read_cost_little_memory_and_no_others(headrace_factory: Any) -> None:
    server = headrace_factory(durability="flush", headrace_http_body_memory_bytes=8_388_608)
    topic = TopicApi(server, "large").create(1)
    line = json.dumps({"value": "x" * 1000}).encode() + b"\n"
    topic.lines(line * 15_000)  # 15 MB
    topic.read(limit=10_000, max_bytes=4_000_000)
    before = server.memory_bytes()
    host, port = server.http.removeprefix("http://").split(":")
    stalled = []
    for number in range(80):
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        as_lines = f"Accept: {NDJSON}\r\n" if number % 2 else ""
        path = topic.path if number % 2 else f"{topic.path}?limit=10000&max_bytes=4000000"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{as_lines}\r\n".encode())
        stalled.append(connection)
    for number in range(100):
        assert topic.publish({"value": number}).status == 200
        assert len(topic.values(limit=10)) == 10  # a short page; it needs no room
    assert server.memory_bytes(peak=True) - before < 80_000_000
    assert len(topic.read(headers=LINES).lines) > 15_000
    for connection in stalled:
        connection.close()


def test_many_readers_and_writers_at_once_lose_nothing(new: TopicApi) -> None:
    topic = new.create(2)

    def follow() -> list[int]:
        seen: list[int] = []
        position: dict[str, str] = {}
        while len(seen) < 400:
            page = topic.read(wait_s=5, **position).body
            seen += [event["value"] for event in page["events"]]
            position = {"position": page["next"]}
        return seen

    with ThreadPoolExecutor(12) as pool:
        readers = [pool.submit(follow) for _ in range(4)]
        writers = [pool.submit(lambda w: [topic.publish({"value": w * 50 + n}) for n in range(50)], w) for w in range(8)]
        for writer in writers:
            assert all(answer.status == 200 for answer in writer.result(30))
        for reader in readers:
            assert sorted(reader.result(30)) == list(range(400))


# --- one record


def test_one_record_is_shown_as_json_or_as_its_bytes(topic: TopicApi) -> None:
    topic.value(b"\x00\xff", query="?key=a%20%FF&timestamp=1700000000000")
    assert topic.one(0, 0).body == topic.events()[0]
    raw = topic.one(0, 0, {"Accept": "application/octet-stream"})
    assert raw.content == b"\x00\xff"
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["headrace-key"] == "a%20%FF"
    assert raw.headers["headrace-timestamp"] == "1700000000000"
    known = topic.one(0, 0, {"If-None-Match": topic.one(0, 0).headers["etag"]})
    assert (known.status, known.content) == (304, b"")


def test_a_record_that_is_not_there_is_unknown(topic: TopicApi) -> None:
    fill(topic, 5)
    trim(topic, 2)
    for offset in (0, 1, 5, 2**62):
        found = assert_problem(topic.one(0, offset), 404, "unknown_offset")
        assert (found["start"], found["end"]) == (2, 5)
    assert_problem(topic.one(0, "x"), 400, "invalid_offset")
