"""WebSockets: publish and subscribe in JSON, and what becomes of those who don't speak it."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.http.v1.asking import V1
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory

OUR_BEATS = {"heartbeat"}


class Socket:
    """Speaks the messages of `socket_messages`."""

    def __init__(self, server: HeadraceServer, path: str = "/v1/socket", **options: Any) -> None:
        self._context = connect(server.http.replace("http", "ws", 1) + path, max_size=None, **options)
        self.raw: ClientConnection = self._context.__enter__()

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def say(self, kind: str, **members: Any) -> None:
        self.raw.send(json.dumps({"type": kind, **{name.rstrip("_"): value for name, value in members.items()}}))

    def hear(self) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(self.raw.recv(timeout=30))
            if message["type"] not in OUR_BEATS:
                return message

    def ask(self, kind: str, **members: Any) -> dict[str, Any]:
        self.say(kind, **members)
        return self.hear()

    def values(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            message = self.hear()
            assert message["type"] == "events", message
            found += [event["value"] for event in message["events"]]
        return found

    def _hear_beats(self) -> None:
        for _ in range(100):
            assert json.loads(self.raw.recv(timeout=10))["type"] in OUR_BEATS

    def ended(self) -> tuple[int, str]:
        """Waits for the end; returns how it was."""
        with pytest.raises(ConnectionClosed):
            self._hear_beats()
        assert self.raw.protocol.close_rcvd is not None
        return self.raw.protocol.close_rcvd.code, self.raw.protocol.close_rcvd.reason


@pytest.fixture
def server(headrace_shared_server: HeadraceServer) -> HeadraceServer:
    return headrace_shared_server


@pytest.fixture
def topic(server: HeadraceServer) -> str:
    name = f"socket-{uuid.uuid4().hex[:8]}"
    assert V1(server).ask("POST", "/v1/topics", {"name": name, "partitions": 2}).status == 201
    return name


# --- publishing


def test_a_publish_is_answered_with_where_it_is_stored(server: HeadraceServer, topic: str) -> None:
    with Socket(server) as ws:
        one = ws.ask(
            "publish", id="a", topic=topic, event={"value": {"n": 1}, "key": "k", "headers": {"h": "v"}, "partition": 1}
        )
        assert (one["type"], one["id"], len(one["events"])) == ("published", "a", 1)
        assert (one["events"][0]["partition"], one["events"][0]["offset"]) == (1, 0)
        many = ws.ask("publish", id=2, topic=topic, events=[{"value": number, "partition": 0} for number in range(3)])
        assert [(each["partition"], each["offset"]) for each in many["events"]] == [(0, 0), (0, 1), (0, 2)]
    (event,) = V1(server).get(f"/v1/topics/{topic}/events?partition=1")["events"]
    assert (event["key"], event["value"], event["headers"]) == ("k", {"n": 1}, [["h", "v"]])


def test_what_was_acknowledged_survives_kill_9(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(num_partitions=1)
    with Socket(server, "/v1/topics/t/socket") as ws:
        for number in range(50):
            ws.say("publish", id=number, event={"value": number})
        acknowledged = [ws.hear()["id"] for _ in range(50)]
        server.crash()
    server.restart()
    assert acknowledged == list(range(50))
    assert [event["value"] for event in V1(server).get("/v1/topics/t/events")["events"]] == acknowledged


def test_a_thousand_publishes_at_once_are_all_answered_in_order(server: HeadraceServer, topic: str) -> None:
    with Socket(server, f"/v1/topics/{topic}/socket") as ws:
        for number in range(1000):
            ws.say("publish", id=number, event={"value": number, "partition": 0})
        assert [ws.hear()["id"] for _ in range(1000)] == list(range(1000))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"event": {"valu": 1}}, "invalid_event"),
        ({"event": {"value": 1, "partition": 9}}, "unknown_partition"),
        ({"events": [{"value": 1}, 5]}, "invalid_event"),
        ({"events": []}, "invalid_message"),
        ({}, "invalid_message"),
        ({"event": {"value": 1}, "events": []}, "invalid_message"),
        ({"event": {"value": 1}, "topic": "another"}, "invalid_message"),
        ({"event": {"value": "x" * 2_000_000}}, "event_too_large"),
        ({"event": {"value": 1}, "unknown": 1}, "invalid_message"),
    ],
)
def test_what_cant_be_published_is_an_error_and_the_socket_stays(
    server: HeadraceServer, topic: str, message: dict[str, Any], code: str
) -> None:
    with Socket(server, f"/v1/topics/{topic}/socket") as ws:
        error = ws.ask("publish", id=5, **message)
        assert (error["type"], error["id"], error["code"]) == ("error", 5, code)
        assert error["status"] >= 400
        assert error["detail"]
        assert ws.ask("publish", id=6, event={"value": 1})["type"] == "published"
    assert sum(each["end_offset"] for each in V1(server).get(f"/v1/topics/{topic}")["partitions"]) == 1


# --- subscribing


def test_a_socket_of_a_topic_can_be_subscribed_by_its_url_alone(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    v1.publish(topic, 1, 2, partition=0)
    with Socket(server, f"/v1/topics/{topic}/socket?from=earliest&partition=0") as ws:
        begun = ws.hear()
        assert (begun["type"], begun["subscription"], begun["topic"]) == ("subscribed", topic, topic)
        assert ws.values(2) == [1, 2]
        v1.publish(topic, 3, partition=0)
        events = ws.hear()
        assert [event["value"] for event in events["events"]] == [3]
    with Socket(server, f"/v1/topics/{topic}/socket?partition=0&position={begun['position']}") as ws:
        assert ws.hear()["type"] == "subscribed"
        assert ws.values(3) == [1, 2, 3]


def test_one_socket_follows_many_topics(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    other = f"{topic}-other"
    v1.publish(other, "b")
    v1.publish(topic, "a", partition=0)
    with Socket(server) as ws:
        assert ws.ask("subscribe", topic=topic, subscription="first", from_="earliest")["type"] == "subscribed"
        assert ws.values(1) == ["a"]
        assert ws.ask("subscribe", topic=other, from_="earliest")["subscription"] == other
        found = ws.hear()
        assert (found["subscription"], found["events"][0]["value"]) == (other, "b")
        assert ws.ask("unsubscribe", subscription="first") == {"type": "unsubscribed", "subscription": "first"}
        v1.publish(topic, "not heard")
        v1.publish(other, "heard")
        assert ws.hear()["subscription"] == other


def test_credit_is_how_many_events_come_and_no_more(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    v1.publish(topic, *range(10), partition=0)
    with Socket(server, f"/v1/topics/{topic}/socket") as ws:
        ws.ask("subscribe", from_="earliest", partition=0, credit=3)
        assert ws.values(3) == [0, 1, 2]
        assert ws.ask("ping", id=1) == {"type": "pong", "id": 1}  # nothing came before it
        ws.say("credit", credit=2)
        assert ws.values(2) == [3, 4]
        ws.say("credit", credit=100)
        assert ws.values(5) == [5, 6, 7, 8, 9]


def test_the_position_resumes_exactly(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    for partition in range(2):
        v1.publish(topic, *(f"{partition}-{number}" for number in range(5)), partition=partition)
    seen: list[Any] = []
    position = None
    while len(seen) < 10:
        with Socket(server) as ws:
            ws.say("subscribe", topic=topic, from_="earliest", credit=3, **({"position": position} if position else {}))
            assert ws.hear()["type"] == "subscribed"
            message = ws.hear()
            seen += [event["value"] for event in message["events"]]
            position = message["position"]
    assert sorted(seen) == [f"{partition}-{number}" for partition in range(2) for number in range(5)]


def test_a_filter_a_gap_and_the_end_of_a_topic_reach_a_subscriber(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    with Socket(server) as ws:
        position = ws.ask("subscribe", topic=topic, partition=0, from_="earliest")["position"]
    v1.publish(topic, *range(6), partition=0)
    v1.ask("POST", f"/v1/topics/{topic}/trim", {"before": 2, "partition": 0})
    with Socket(server) as ws:
        ws.ask("subscribe", topic=topic, partition=0, position=position, filter="value % 2 == 1")
        gap = ws.hear()
        assert (gap["type"], gap["notice"], gap["from"], gap["to"]) == ("notice", "gap", 0, 2)
        assert ws.values(2) == [3, 5]
        v1.ask("DELETE", f"/v1/topics/{topic}")
        assert ws.hear()["notice"] == "end"
        assert ws.hear() == {"type": "unsubscribed", "subscription": topic}
        assert ws.ask("ping")["type"] == "pong"


@pytest.mark.parametrize(
    ("kind", "members", "code"),
    [
        ("subscribe", {"topic": "not-there"}, "unknown_topic"),
        ("subscribe", {}, "invalid_message"),
        ("subscribe", {"topic": "TOPIC", "from_": "nowhere"}, "invalid_from"),
        ("subscribe", {"topic": "TOPIC", "partition": 7}, "unknown_partition"),
        ("subscribe", {"topic": "TOPIC", "position": "x"}, "invalid_position"),
        ("subscribe", {"topic": "TOPIC", "filter": "value."}, "invalid_filter"),
        ("subscribe", {"topic": "TOPIC", "credit": 0}, "invalid_message"),
        ("subscribe", {"topic": "TOPIC", "credit": True}, "invalid_message"),
        ("unsubscribe", {"subscription": "none"}, "unknown_subscription"),
        ("credit", {"subscription": "none", "credit": 5}, "unknown_subscription"),
        ("shout", {}, "invalid_message"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_the_socket_stays(
    server: HeadraceServer, topic: str, kind: str, members: dict[str, Any], code: str
) -> None:
    given = {name: topic if value == "TOPIC" else value for name, value in members.items()}
    with Socket(server) as ws:
        error = ws.ask(kind, **given)
        assert (error["type"], error["code"]) == ("error", code), error
        assert ws.ask("ping")["type"] == "pong"


def test_subscriptions_of_a_socket_have_a_bound(server: HeadraceServer, topic: str) -> None:
    with Socket(server) as ws:
        for number in range(64):
            assert ws.ask("subscribe", topic=topic, subscription=str(number))["type"] == "subscribed"
        assert ws.ask("subscribe", topic=topic, subscription="one more")["code"] == "too_many_subscriptions"
        assert ws.ask("subscribe", topic=topic, subscription="3")["code"] == "subscribed"


# --- how it ends


@pytest.mark.parametrize(
    ("sent", "code"),
    [("{", 1007), ("", 1007), ('{"type":"ping"}}', 1007), (b"{}", 1003), ("x" * (4 * 1024 * 1024 + 1), 1009)],
)
def test_what_is_no_message_ends_the_socket_with_its_code(server: HeadraceServer, sent: str | bytes, code: int) -> None:
    with Socket(server) as ws:
        ws.raw.send(sent)
        assert ws.ended()[0] == code


def test_a_server_that_stops_says_goodbye(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    with Socket(server) as ws:
        assert ws.ask("ping")["type"] == "pong"
        server.stop()
        assert ws.ended() == (1001, "the server ends")


def test_a_user_who_is_deleted_is_put_out(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory(settings={"headrace.http.heartbeat.ms": 200})
    v1 = V1(server)
    v1.ask("PUT", "/api/users/u", {"password": "p", "tags": ""}, user="guest:guest")
    v1.ask("PUT", "/api/permissions/%2F/u", {"configure": ".*", "write": ".*", "read": ".*"}, user="guest:guest")
    login = {"Authorization": "Basic " + base64.b64encode(b"u:p").decode()}
    with Socket(server, additional_headers=login) as ws:
        assert ws.ask("publish", topic="t", event={"value": 1})["type"] == "published"
        v1.ask("DELETE", "/api/users/u", user="guest:guest")
        assert ws.ended()[0] == 1008


def test_permissions_hold_for_each_topic(server: HeadraceServer, topic: str) -> None:
    v1 = V1(server)
    v1.ask("PUT", "/api/users/reader", {"password": "p", "tags": ""}, user="guest:guest")
    v1.ask("PUT", "/api/permissions/%2F/reader", {"configure": "", "write": "", "read": f"^{topic}$"}, user="guest:guest")
    login = {"Authorization": "Basic " + base64.b64encode(b"reader:p").decode()}
    with Socket(server, additional_headers=login) as ws:
        assert ws.ask("subscribe", topic=topic)["type"] == "subscribed"
        assert ws.ask("subscribe", topic="other")["code"] == "forbidden"
        assert ws.ask("publish", topic=topic, event={"value": 1})["code"] == "forbidden"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/topics/not-there/socket?from=latest", {}, 404),
        ("/v1/socket?from=latest", {}, 400),
        ("/v1/socket", {"Origin": "http://evil.example"}, 403),
        ("/v1/socket", {"Authorization": "Basic bm9ib2R5Og=="}, 401),
        ("/v1/nothing", {}, 404),
    ],
)
def test_what_is_refused_before_it_is_a_socket_gets_a_problem(
    server: HeadraceServer, path: str, headers: dict[str, str], status: int
) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(server.http.replace("http", "ws", 1) + path, additional_headers=headers),
    ):
        pass
    response = refused.value.response
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert json.loads(response.body or b"")["status"] == status


def test_a_request_that_is_no_handshake_is_told_to_upgrade(server: HeadraceServer) -> None:
    answer = V1(server).ask("GET", "/v1/socket")
    assert (answer.status, answer.headers["upgrade"], answer.body["code"]) == (426, "websocket", "upgrade_needed")


# --- misuse of the protocol, byte by byte


@contextmanager
def raw_socket(server: HeadraceServer, path: str = "/v1/socket") -> Iterator[socket.socket]:
    host, port = server.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        key = base64.b64encode(os.urandom(16)).decode()
        peer.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += peer.recv(1)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        yield peer


def frame(
    opcode: int, payload: bytes, *, final: bool = True, masked: bool = True, length: int | None = None, rsv: int = 0
) -> bytes:
    size = len(payload) if length is None else length
    head = bytes([(0x80 if final else 0) | rsv | opcode])
    bit = 0x80 if masked else 0
    head += bytes([bit | size]) if size < 126 else bytes([bit | 126]) + struct.pack(">H", size) if size < 65536 else b""
    if size >= 65536:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


def until_closed(peer: socket.socket) -> bytes:
    received = b""
    try:
        while piece := peer.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return received


@pytest.mark.parametrize(
    "bad",
    [
        frame(1, b"{}", masked=False),
        frame(1, b"\xff\xfe"),
        frame(3, b""),
        frame(1, b"{}", rsv=0x40),
        frame(0, b"{}"),
        frame(9, b"x" * 126),
        frame(1, b"", length=2**62),
        frame(1, b"", length=17 * 2**20),
        frame(8, b"\x03"),
        b"\x00" * 64,
        os.urandom(64),
    ],
    ids=["unmasked", "not UTF-8", "reserved opcode", "reserved bit", "continuation of nothing", "long ping", "absurd length",
         "long frame", "half a close code", "zeros", "noise"],
)  # fmt: skip
def test_hostile_frames_cost_their_own_connection_alone(server: HeadraceServer, bad: bytes) -> None:
    before = server.memory_bytes()
    with raw_socket(server) as peer, Socket(server) as other:
        peer.sendall(bad)
        peer.shutdown(socket.SHUT_WR)
        until_closed(peer)
        assert other.ask("ping")["type"] == "pong"
    assert server.memory_bytes() - before < 64 * 2**20
    assert "Traceback" not in server.log_text()


def test_a_message_in_many_frames_with_pings_between_is_one_message(server: HeadraceServer) -> None:
    with raw_socket(server) as peer:
        peer.sendall(frame(1, b'{"type":', final=False) + frame(9, b"hello") + frame(0, b'"ping","id":1}'))
        received = b""
        while b"pong" not in received or b"hello" not in received:
            received += peer.recv(1000)
        assert b'{"type":"pong","id":1}' in received


def test_messages_that_never_end_are_ended_with_bounded_memory(headrace_factory: HeadraceFactory) -> None:
    server = headrace_factory()
    with Socket(server) as other:
        assert other.ask("ping")["type"] == "pong"
        before = server.memory_bytes()
        for _ in range(10):
            with raw_socket(server) as peer:
                try:
                    for number in range(60):
                        peer.sendall(frame(0 if number else 1, b"x" * 2**20, final=False))
                    until_closed(peer)
                except ConnectionError:
                    pass
        assert other.ask("ping")["type"] == "pong"
        assert server.memory_bytes(peak=True) - before < 200 * 2**20
    wait_until(lambda: "its message is too long" in server.log_text(), what="a word about it in the log")
