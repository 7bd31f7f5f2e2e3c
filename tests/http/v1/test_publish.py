"""Publishing over a real socket: what is stored, what is answered, what is refused and how."""

from __future__ import annotations

import json
import select
import socket
import threading
import uuid
from base64 import b64encode
from typing import Any

import pytest
from tests.http.management.asking import Api
from tests.http.v1.topic_api import TopicApi, assert_problem

from headrace.record.partitioner import partition_for_key
from headrace.testing import HeadraceServer, wait_until


@pytest.fixture
def new(headrace_shared_server: HeadraceServer) -> TopicApi:
    """A name that no topic has yet."""
    return TopicApi(headrace_shared_server, f"publish-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def topic(new: TopicApi) -> TopicApi:
    """Of one partition."""
    return new.create(1)


def connected(api: TopicApi) -> socket.socket:
    host, port = api.server.http.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


# --- what is stored


def test_one_event_is_stored_and_its_place_answered(topic: TopicApi) -> None:
    answer = topic.publish({"key": "k", "value": {"a": 1}, "headers": {"h": "v"}, "timestamp": 1_700_000_000_000})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == {"partition": 0, "offset": 0, "timestamp": 1_700_000_000_000}
    assert topic.events() == [
        {
            "partition": 0,
            "offset": 0,
            "timestamp": 1_700_000_000_000,
            "key": "k",
            "value": {"a": 1},
            "headers": [["h", "v"]],
        }
    ]


def test_many_events_are_answered_in_their_order(new: TopicApi) -> None:
    topic = new.create(4)
    sent = [{"key": f"k{number}", "value": number, "timestamp": 1_700_000_000_000 + number} for number in range(50)]
    for body in (sent, {"events": sent}):
        stored = topic.publish(body).body["events"]
        assert [each["partition"] for each in stored] == [partition_for_key(f"k{n}".encode(), 4) for n in range(50)]
        assert [each["timestamp"] for each in stored] == [each["timestamp"] for each in sent]
        for place, event in zip(stored, sent, strict=True):
            assert topic.one(place["partition"], place["offset"]).body["value"] == event["value"]
    assert topic.publish([]).body == {"events": []}


def test_events_of_one_request_are_one_batch_for_each_partition(new: TopicApi) -> None:
    """Seen from what follows: their offsets are next to each other although others publish at the same time."""
    topic = new.create(1)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            topic.publish({"value": "between"})

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(10):
            offsets = [each["offset"] for each in topic.publish([{"value": n} for n in range(100)]).body["events"]]
            assert offsets == list(range(offsets[0], offsets[0] + 100))
    finally:
        stop.set()
        other.join()


def test_any_other_content_type_is_the_value_itself(topic: TopicApi) -> None:
    value = bytes(range(256))
    query = "?key=%FF%00k&header=a:b&header=a:c%FF&timestamp=1700000000000&partition=0"
    assert topic.value(value, query=query).body == {"partition": 0, "offset": 0, "timestamp": 1_700_000_000_000}
    headers = {"Headrace-Key": "k", "Headrace-Header-Trace": "7", "Headrace-Timestamp": "2023-11-14T22:13:20Z"}
    assert topic.value(b"", headers).body["timestamp"] == 1_700_000_000_000
    assert topic.ask("POST", topic.path, b"no type at all").status == 200
    assert topic.value(b'{"value": 1}', {"Content-Type": "text/plain"}).status == 200
    assert topic.one(0, 0, {"Accept": "application/octet-stream"}).content == value
    first, second, third, fourth = topic.events()
    assert (first["key_base64"], first["headers"]) == ("/wBr", [["a", "b"], ["a", {"base64": "Y/8="}]])
    assert (second["key"], second["value"], second["headers"]) == ("k", "", [["trace", "7"]])
    assert third["value"] == "no type at all"
    assert fourth["value"] == {"value": 1}


def test_null_is_a_deletion_and_text_is_its_bytes(topic: TopicApi) -> None:
    topic.publish([{"value": None}, {"value": "null"}, {"value": ""}, {"value_base64": "/w=="}])
    raw = {"Accept": "application/octet-stream"}
    assert topic.one(0, 0, raw).status == 204
    assert [topic.one(0, offset, raw).content for offset in (1, 2, 3)] == [b"null", b"", b"\xff"]


def test_a_partition_may_be_chosen_for_one_or_for_all(new: TopicApi) -> None:
    topic = new.create(3)
    stored = topic.publish([{"value": 1}, {"value": 2, "partition": 1}], partition=2).body["events"]
    assert [each["partition"] for each in stored] == [2, 1]
    assert topic.publish({"value": 3, "key": "k"}, partition=0).body["partition"] == 0
    assert topic.value(b"x", query="?partition=1").body["offset"] == 1
    assert topic.one(1, 1).body["value"] == "x"


def test_events_without_a_key_stay_together_and_move_on(new: TopicApi) -> None:
    topic = new.create(3)
    first = {topic.publish({"value": "x" * 100}).body["partition"] for _ in range(10)}
    assert len(first) == 1
    all_of_them = {topic.publish({"value": "x" * 8000}).body["partition"] for _ in range(10)}
    assert all_of_them == {0, 1, 2}
    assert len({each["partition"] for each in topic.publish([{"value": 1}] * 20).body["events"]}) == 1


@pytest.mark.parametrize(("acks", "status"), [("all", 200), ("-1", 200), ("1", 200), ("0", 202)])
def test_acks_say_when_to_answer(topic: TopicApi, acks: str, status: int) -> None:
    answer = topic.publish({"value": acks}, acks=acks)
    assert answer.status == status
    assert wait_until(lambda: topic.values()) == [int(acks) if acks != "all" else "all"]
    if acks == "0":
        assert answer.content == b""
        assert topic.publish({"value": 1, "partition": 9}, acks=0).status == 202  # whatever becomes of it
        assert topic.publish([{"value": 1, "partition": 9}], acks=0).status == 202
        assert len(topic.values()) == 1


def test_many_events_are_split_where_a_batch_would_be_too_large_and_stay_together(new: TopicApi) -> None:
    topic = new.create(1, max_message_bytes="20000")
    stored = topic.publish([{"value": f"{n:04}" + "x" * 1000} for n in range(100)]).body["events"]
    assert [each["offset"] for each in stored] == list(range(100))
    assert [value[:4] for value in topic.values(limit=200)] == [f"{n:04}" for n in range(100)]


def test_what_was_read_can_be_published(topic: TopicApi) -> None:
    topic.publish([{"key": "k", "value": "x", "headers": [["a", None]], "timestamp": 5}, {"key_base64": "/w==", "value": 1}])
    events = topic.events()
    other = TopicApi(topic.server, topic.topic + "-copy")
    assert other.publish(events).status == 200
    assert other.events() == events


def test_the_topic_stamps_its_own_time_where_it_does(new: TopicApi) -> None:
    topic = new.create(1, message_timestamp_type="LogAppendTime")
    stamped = topic.publish({"value": 1, "timestamp": 5}).body["timestamp"]
    assert stamped > 1_700_000_000_000
    assert topic.events()[0]["timestamp"] == stamped


def test_a_connection_is_used_again_after_a_publish(topic: TopicApi) -> None:
    body = b'{"value": 1}'
    head = f"POST {topic.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with connected(topic) as connection:
        reader = connection.makefile("rb")
        for expected in range(20):
            connection.sendall(request)
            assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert json.loads(reader.read(length))["offset"] == expected


def test_bytes_are_counted_for_each_topic(topic: TopicApi) -> None:
    topic.publish({"value": "x" * 1000})
    topic.read()
    counted = {}
    for line in topic.ask("GET", "/metrics").content.decode().splitlines():
        if 'protocol="http"' in line and topic.topic in line:
            name, _, value = line.rpartition(" ")
            counted[name.partition("{")[0]] = float(value)
    assert 1000 < counted["headrace_topic_bytes_in_total"] < 1200
    assert 1000 < counted["headrace_topic_bytes_out_total"] < 1500


# --- what is refused


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", "not_json", "nothing"),
        (b'{"value": 1', "not_json", "too early"),
        (b'{"value": tru}', "not_json", "byte 11"),
        (b'{"value": "\xff"}', "not_json", "byte 11"),
        (b'{"value": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "not_json", "nested"),
        (b'{"vaule": 1}', "invalid_event", "vaule"),
        (b'[{"value": 1}, {"value": 2}, {}]', "invalid_event", "event 2"),
        (b'{"value": 1, "partition": 7}', "unknown_partition", "there are 1"),
        (b'[{"value": 1}, {"value": 1, "partition": -1}]', "unknown_partition", "event 1"),
    ],
)
def test_a_body_that_is_wrong_stores_nothing(topic: TopicApi, body: bytes, code: str, text: str) -> None:
    assert_problem(topic.publish(body), 400, code, text)
    assert topic.events() == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("acks=2", "invalid_acks"),
        ("partition=x", "unknown_partition"),
        ("partition=-1", "unknown_partition"),
        ("partition=99999999999999999999", "unknown_partition"),
        ("timestamp=yesterday", "invalid_timestamp"),
        ("header=none", "invalid_event"),
        ("vaule=1", "unknown_parameter"),
    ],
)
def test_a_query_that_is_wrong_is_told(topic: TopicApi, query: str, code: str) -> None:
    assert_problem(topic.value(b"x", query=f"?{query}"), 400, code)
    assert_problem(topic.publish({"value": 1}, key="k"), 400, "unknown_parameter", "key")  # it belongs into the event


def test_rules_of_the_topic_are_kept(new: TopicApi) -> None:
    topic = new.create(1, cleanup_policy="compact", max_message_bytes="5000", message_timestamp_after_max_ms="60000")
    assert_problem(topic.publish({"value": 1}), 422, "key_needed", "compacted")
    found = assert_problem(topic.publish([{"key": "k", "value": 1}, {"value": 1}]), 422, "key_needed", "event 1")
    assert found["event"] == 1
    assert_problem(topic.publish({"key": "k", "value": "x" * 5000}), 413, "event_too_large", "5000")
    assert_problem(topic.value(b"x" * 5000, query="?key=k"), 413, "event_too_large")
    assert_problem(topic.publish({"key": "k", "value": 1, "timestamp": 2**53}), 422, "invalid_timestamp")
    assert topic.publish({"key": "k", "value": None}).status == 200
    assert len(topic.events()) == 1


def test_a_topic_that_is_not_there_is_created_or_unknown(headrace_factory: Any) -> None:
    server = headrace_factory(auto_create_topics_enable=False, durability="memory")
    assert_problem(TopicApi(server, "orders").publish({"value": 1}), 404, "unknown_topic", "orders")
    assert_problem(TopicApi(server, "orders").lines(b'{"value": 1}'), 404, "unknown_topic")
    assert_problem(TopicApi(server, "orders").read(), 404, "unknown_topic")


def test_a_topic_that_is_deleted_while_the_body_comes_is_unknown(topic: TopicApi) -> None:
    body = b'{"value": 1}'
    head = f"POST {topic.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with connected(topic) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100")  # somebody reads the body
        topic.delete()
        topic.create(1)
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
    assert topic.events() == []


def test_names_that_no_topic_may_have_and_the_servers_own_are_refused(headrace_shared_server: HeadraceServer) -> None:
    for name in ("a b", "ä", "..", "x" * 250):
        assert_problem(TopicApi(headrace_shared_server, name).publish({"value": 1}), 400, "invalid_name")
    for name in ("__consumer_offsets", "__transaction_state"):
        assert_problem(TopicApi(headrace_shared_server, name).publish({"value": 1}), 403, "internal_topic")
    hidden = TopicApi(headrace_shared_server, "__headrace_leases")
    assert hidden.publish({"value": 1}).status in (400, 403, 404)
    assert hidden.read().status == 404


def test_another_method_is_refused_with_those_that_are_possible(topic: TopicApi) -> None:
    answer = topic.ask("PUT", topic.path, b"{}")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert_problem(topic.publish({"value": 1}, {"Content-Encoding": "gzip"}), 415, "unsupported_encoding")


def test_a_user_needs_the_permission_to_write(headrace_shared_server: HeadraceServer, topic: TopicApi) -> None:
    management = Api(headrace_shared_server.http)
    assert management.put(f"/users/{topic.topic}", {"password": "p", "tags": ""}) == 201
    login = {"Authorization": "Basic " + b64encode(f"{topic.topic}:p".encode()).decode()}
    assert_problem(topic.publish({"value": 1}, login), 403, "forbidden", "write access")
    permissions = {"configure": "", "write": f"^{topic.topic}$", "read": ""}
    assert management.put(f"/permissions/%2f/{topic.topic}", permissions) == 201
    assert topic.publish({"value": 1}, login).status == 200
    assert_problem(topic.read(login), 403, "forbidden", "read access")
    assert_problem(TopicApi(headrace_shared_server, "other").publish({"value": 1}, login), 403, "forbidden")
    assert_problem(topic.publish({"value": 1}, {"Authorization": "Basic !"}), 400, "bad_credentials")


# --- bounds


def test_a_body_that_is_too_large_is_refused_before_it_is_read(topic: TopicApi) -> None:
    with connected(topic) as connection:
        connection.sendall(
            f"POST {topic.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 999999999999\r\n\r\n".encode()
        )
        assert b"413" in connection.recv(65536).split(b"\r\n")[0]
    chunks = (b"[" + b" " * 100_000 for _ in range(100))
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    try:
        assert_problem(topic.ask("POST", topic.path, chunks, headers), 413, "body_too_large")
    except (BrokenPipeError, ConnectionResetError):
        pass  # the answer came while the rest was still being sent
    assert_problem(topic.publish([{"value": 1}] * 10_001), 413, "too_many_events", "NDJSON")


def test_bodies_that_come_in_pieces_are_whole(topic: TopicApi) -> None:
    value = "x" * 300_000
    body = json.dumps({"value": value}).encode()
    pieces = [body[first : first + 7000] for first in range(0, len(body), 7000)]
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    assert topic.ask("POST", topic.path, iter(pieces), headers).status == 200
    assert topic.publish({"value": value}).status == 200
    assert topic.values() == [value, value]


def test_bodies_that_drip_are_ended_and_keep_nobody_from_publishing(headrace_factory: Any) -> None:
    """More of them than requests are worked on at once."""
    server = headrace_factory(durability="memory", headrace_http_body_timeout_ms=6000)
    topic = TopicApi(server, "drip").create(1)
    head = f"POST {topic.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {{}}\r\n\r\n"
    dripping = [connected(topic) for _ in range(400)]
    try:
        for number, connection in enumerate(dripping):
            connection.sendall(head.format(1000 if number % 2 else 100_000).encode() + b'{"value"')
        for number in range(20):
            assert topic.publish({"value": number}).status == 200
        assert not select.select(dripping, [], [], 0)[0]  # none of them had been ended by then
        for connection in dripping:
            assert b"408" in connection.recv(65536).split(b"\r\n")[0]
    finally:
        for connection in dripping:
            connection.close()
    assert topic.values() == list(range(20))
    assert "Traceback" not in server.log_text()


def test_a_flood_of_large_bodies_waits_for_room_and_memory_stays_bounded(headrace_factory: Any) -> None:
    server = headrace_factory(durability="memory", headrace_http_body_memory_bytes=8_388_608)
    topic = TopicApi(server, "flood")
    topic.publish({"value": 1})
    before = server.memory_bytes()
    body = json.dumps([{"value": "x" * 1000}] * 3800).encode()  # 3.9 MB
    results: list[int] = []

    def send() -> None:
        results.append(topic.publish(body, acks=1).status)

    senders = [threading.Thread(target=send) for _ in range(24)]
    for sender in senders:
        sender.start()
    small = [topic.publish({"value": n}).status for n in range(20)]
    for sender in senders:
        sender.join()
    assert small == [200] * 20
    assert sorted(results) == [200] * 24
    stored = 24 * 3800 * 1100
    assert server.memory_bytes(peak=True) - before < stored + 150_000_000  # a topic in memory is there as well
