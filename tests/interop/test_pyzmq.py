"""Plain pyzmq programs and topics, both ways, through a real server."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from headrace.client.kafka import Cluster, Producer, Reader, TopicPartition, start_offsets
from headrace.client.kafka.topics import create_topic
from headrace.record import Event
from headrace.testing import HeadraceServer, free_port, wait_until
from headrace.zeromq.wire.frames import decode_message, encode_message

pytestmark = pytest.mark.interop

Socket = zmq.Socket[bytes]


@pytest.fixture
def context() -> Iterator[zmq.Context[Socket]]:
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


class Serving:
    """A server, its routes and its topics."""

    def __init__(self, server: HeadraceServer) -> None:
        self.server = server

    def route(self, name: str, **definition: Any) -> dict[str, Any]:
        return self._ask("PUT", name, definition)

    def shown(self, name: str) -> dict[str, Any]:
        return self._ask("GET", name)

    def _ask(self, method: str, name: str, body: Any = None) -> dict[str, Any]:
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(
            f"{self.server.http}/v1/routes/{name}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def topic(self, name: str) -> str:
        create_topic(Cluster(self.server.kafka), name, partitions=1)
        return name

    def publish(self, topic: str, *events: Event) -> None:
        producer = Producer(Cluster(self.server.kafka))
        for event in events:
            producer.send(topic, event)
        producer.flush()

    def events(self, topic: str, count: int) -> list[Event]:
        """The first so many of a topic."""
        cluster = Cluster(self.server.kafka)
        reader = Reader(cluster, start_offsets(cluster, [TopicPartition(topic, 0)]))
        found: list[Event] = []

        def enough() -> bool:
            found.extend(Event(one.key, one.value, one.headers, one.timestamp_ms) for one in reader.poll())
            return len(found) >= count

        wait_until(enough, timeout_s=20, what=f"{count} events of {topic}")
        return found


@pytest.fixture
def serving(context: zmq.Context[Socket], headrace_server: HeadraceServer) -> Serving:
    return Serving(headrace_server)


def address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def zmq_source(where: str, **more: Any) -> dict[str, Any]:
    return {"type": "zmq", "address": where, **more}


def to_topic(topic: str) -> dict[str, Any]:
    return {"type": "topic", "topic": topic}


def received(socket: Socket, timeout_s: float = 10.0) -> list[bytes]:
    assert socket.poll(round(timeout_s * 1000)), "nothing came"
    return socket.recv_multipart()


def test_what_is_pushed_is_in_the_topic(serving: Serving, context: zmq.Context[Socket]) -> None:
    where = address()
    serving.route("in", source=zmq_source(where), destination=to_topic(serving.topic("prices")))
    push = context.socket(zmq.PUSH)
    push.connect(where)
    whole = Event(b"", None, (("a", None), ("a", b"1")), 1_700_000_000_000)
    push.send(b"bare")
    push.send_multipart([b"ACME", b"101.5"])
    push.send_multipart(encode_message(b"", whole))
    bare, two, three = serving.events("prices", 3)
    assert (bare.key, bare.value, bare.headers) == (None, b"bare", ())
    assert (two.key, two.value, two.headers) == (None, b"101.5", (("zmq.topic", b"ACME"),))
    assert three == whole


def test_the_envelope_may_become_the_key(serving: Serving, context: zmq.Context[Socket]) -> None:
    where = address()
    serving.route("in", source=zmq_source(where, envelope="key"), destination=to_topic(serving.topic("prices")))
    push = context.socket(zmq.PUSH)
    push.connect(where)
    push.send_multipart([b"ACME", b"1"])
    push.send_multipart(encode_message(b"ACME", Event(b"own", b"2")))
    assert [(event.key, event.value, event.headers) for event in serving.events("prices", 2)] == [
        (b"ACME", b"1", ()),
        (b"own", b"2", ()),
    ]


def test_a_subscribing_route_takes_only_its_prefixes(serving: Serving, context: zmq.Context[Socket]) -> None:
    pub = context.socket(zmq.XPUB)
    port = pub.bind_to_random_port("tcp://127.0.0.1")
    source = zmq_source(f"tcp://127.0.0.1:{port}", prefixes=["prices.", "news"], envelope="drop")
    serving.route("in", source=source, destination=to_topic(serving.topic("prices")))
    assert {received(pub)[0], received(pub)[0]} == {b"\x01prices.", b"\x01news"}
    for topic, value in [
        (b"prices.ACME", b"1"),
        (b"weather", b"2"),
        (b"newspaper", b"3"),
        (b"price", b"4"),
        (b"prices.", b"5"),
    ]:
        pub.send_multipart([topic, value])
    assert [event.value for event in serving.events("prices", 3)] == [b"1", b"3", b"5"]


def test_subscribers_get_what_is_in_the_topic(serving: Serving, context: zmq.Context[Socket]) -> None:
    where, topic = address(), serving.topic("prices")
    serving.route("out", topic=topic, destination=zmq_source(where, envelope="{topic}/{key}"), **{"from": "latest"})
    sub = context.socket(zmq.SUB)
    sub.connect(where)
    sub.subscribe(b"prices/A")
    _until_subscribed(serving, sub, topic, b"A-probe")
    events = [Event(b"ACME", b"1", (("h", b"x"),), 5), Event(b"BCME", b"2"), Event(b"AX", None, (), 7), Event(None, b"3")]
    serving.publish(topic, *events)
    got = [decode_message(received(sub)) for _ in range(2)]
    assert [(message.topic, message.event) for message in got] == [(b"prices/ACME", events[0]), (b"prices/AX", events[2])]
    assert got[1].offset == got[0].offset + 2  # type: ignore[operator]
    assert got[0].partition == 0


def _until_subscribed(serving: Serving, sub: Socket, topic: str, key: bytes) -> None:
    """PUB forgets what nobody is subscribed to: publishes until the first one arrives, and takes in the others."""

    def arrived() -> bool:
        serving.publish(topic, Event(key, b"probe"))
        return bool(sub.poll(100))

    wait_until(arrived, what="the subscription")
    serving.publish(topic, Event(key, b"last probe"))
    wait_until(lambda: sub.recv_multipart()[1] == b"last probe", what="the last probe")


def test_a_route_may_send_values_alone(serving: Serving, context: zmq.Context[Socket]) -> None:
    topic = serving.topic("work")
    serving.publish(topic, Event(b"k", b"1"), Event(None, b"2"), Event(b"k", None))
    for content, expected in [("value", [[b"t.k", b"1"], [b"t.", b"2"], [b"t.k", b""]]), ("bare", [[b"1"], [b"2"], [b""]])]:
        pull = context.socket(zmq.PULL)
        where = f"tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}"
        target = zmq_source(where, socket="push", bind=False, content=content, envelope="t.{key}")
        serving.route(content, topic=topic, destination=target)
        assert [received(pull) for _ in range(3)] == expected


def test_a_push_route_waits_for_those_who_pull_and_loses_nothing(serving: Serving, context: zmq.Context[Socket]) -> None:
    where, topic, count = address(), serving.topic("work"), 5000
    serving.publish(topic, *(Event(value=b"%d" % number) for number in range(count)))
    serving.route("out", topic=topic, destination=zmq_source(where, socket="push", content="bare", high_water_mark=10))
    wait_until(lambda: serving.shown("out")["state"] == "blocked", what="a route that waits")
    assert "nobody is there to pull" in serving.shown("out")["error"]
    pull = context.socket(zmq.PULL)
    pull.rcvhwm = 10
    pull.connect(where)
    assert [int(received(pull)[0]) for _ in range(count)] == list(range(count))
    wait_until(lambda: serving.shown("out")["lag"] == 0, what="a position at the end")


def test_a_route_may_wait_for_slow_subscribers(serving: Serving, context: zmq.Context[Socket]) -> None:
    where, topic, count = address(), serving.topic("prices"), 3000
    target = zmq_source(where, content="bare", slow_subscribers="wait", high_water_mark=10)
    serving.route("out", topic=topic, destination=target)
    sub = context.socket(zmq.SUB)
    sub.rcvhwm = 10
    sub.connect(where)
    sub.subscribe(b"")

    def arrived() -> bool:
        serving.publish(topic, Event(value=b"probe"))
        return bool(sub.poll(100))

    wait_until(arrived, what="the subscription")
    serving.publish(topic, *(Event(value=b"%d" % number + b"." * 3000) for number in range(count)))
    values = [received(sub)[0].split(b".")[0] for _ in range(count)]
    while b"probe" in values:
        values = [*(value for value in values if value != b"probe"), received(sub)[0].split(b".")[0]]
    values += [received(sub)[0].split(b".")[0] for _ in range(count - len(values))]
    assert values == [b"%d" % number for number in range(count)]


def test_a_crash_loses_nothing_of_what_is_pushed(serving: Serving, context: zmq.Context[Socket]) -> None:
    """The puller is slow, so that libzmq's queues are full whenever the server is killed."""
    count = 7000
    where, topic = address(), serving.topic("work")
    serving.publish(topic, *(Event(value=b"%d" % number + b"." * 2000) for number in range(count)))
    serving.route("out", topic=topic, destination=zmq_source(where, socket="push", content="bare", high_water_mark=200))
    pull = context.socket(zmq.PULL)
    pull.rcvhwm = 1
    pull.rcvbuf = 4096
    pull.connect(where)
    seen: set[int] = set()
    for part in (1, 2):
        while len(seen) < part * 2000:
            seen.add(int(received(pull)[0].split(b".")[0]))
        wait_until(lambda: serving.shown("out")["state"] == "blocked", what="queues that are full")
        assert serving.shown("out")["lag"] < count  # and yet the position moves
        serving.server.crash()
        serving.server.restart()
    while len(seen) < count:
        seen.add(int(received(pull)[0].split(b".")[0]))
    wait_until(lambda: serving.shown("out")["lag"] == 0, what="a position at the end")


def test_a_clean_restart_sends_nothing_twice(serving: Serving, context: zmq.Context[Socket]) -> None:
    pull = context.socket(zmq.PULL)
    where = f"tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}"
    topic = serving.topic("work")
    serving.publish(topic, *(Event(value=b"%d" % number) for number in range(100)))
    serving.route("out", topic=topic, destination=zmq_source(where, socket="push", bind=False, content="bare"))
    first = [received(pull)[0] for _ in range(100)]
    serving.server.restart()
    serving.publish(topic, Event(value=b"last"))
    assert [*first, received(pull)[0]] == [*(b"%d" % number for number in range(100)), b"last"]


def test_pushers_find_a_server_that_was_killed_again(serving: Serving, context: zmq.Context[Socket]) -> None:
    where = address()
    serving.route("in", source=zmq_source(where), destination=to_topic(serving.topic("prices")))
    push = context.socket(zmq.PUSH)
    push.connect(where)
    push.send(b"before")
    serving.events("prices", 1)
    serving.server.crash()
    serving.server.restart()
    push.send(b"after")
    assert [event.value for event in serving.events("prices", 2)] == [b"before", b"after"]


def test_ipc_and_ipv6(serving: Serving, context: zmq.Context[Socket], tmp_path: Any) -> None:
    for name, where in [("ipc", f"ipc://{tmp_path}/s"), ("six", f"tcp://[::1]:{free_port()}")]:
        serving.route(name, source=zmq_source(where), destination=to_topic(serving.topic(name)))
        push = context.socket(zmq.PUSH)
        push.ipv6 = True
        push.connect(where)
        push.send(b"hello")
        assert serving.events(name, 1)[0].value == b"hello"


def test_ipc_never_takes_the_place_of_a_file(serving: Serving, tmp_path: Any) -> None:
    file = tmp_path / "precious"
    file.write_text("data")
    serving.route("in", source=zmq_source(f"ipc://{file}"), destination=to_topic(serving.topic("prices")))
    wait_until(lambda: serving.shown("in")["state"] == "blocked", what="a route that can't begin")
    assert "no socket" in serving.shown("in")["error"]
    assert file.read_text() == "data"


# --- CURVE


def curve_client(context: zmq.Context[Socket], kind: int, server_key: bytes, pair: tuple[bytes, bytes]) -> Socket:
    socket = context.socket(kind)
    socket.curve_serverkey, (socket.curve_publickey, socket.curve_secretkey) = server_key, pair
    return socket


def test_with_curve_only_allowed_keys_come_in(serving: Serving, context: zmq.Context[Socket]) -> None:
    where, server, friend, stranger = address(), zmq.curve_keypair(), zmq.curve_keypair(), zmq.curve_keypair()
    curve = {"public_key": server[0].decode(), "secret_key": server[1].decode(), "allowed": [friend[0].decode()]}
    shown = serving.route("in", source=zmq_source(where, curve=curve), destination=to_topic(serving.topic("prices")))
    assert server[1].decode() not in json.dumps(shown)

    plain = context.socket(zmq.PUSH)
    wrong_key = curve_client(context, zmq.PUSH, server[0], stranger)
    wrong_server = curve_client(context, zmq.PUSH, stranger[0], friend)
    for refused in (plain, wrong_key, wrong_server):
        refused.linger = 0
        refused.connect(where)
        refused.send(b"intruder")
    wait_until(lambda: "connections: dropped" in serving.server.log_text(), what="a line in the log")
    allowed = curve_client(context, zmq.PUSH, server[0], friend)
    allowed.connect(where)
    allowed.send(b"hello")
    assert [event.value for event in serving.events("prices", 1)] == [b"hello"]
    allowed.send(b"again")
    assert [event.value for event in serving.events("prices", 2)] == [b"hello", b"again"]


def test_a_route_can_be_the_client_of_curve(serving: Serving, context: zmq.Context[Socket]) -> None:
    server = zmq.curve_keypair()
    pull = context.socket(zmq.PULL)
    pull.curve_server = True
    pull.curve_publickey, pull.curve_secretkey = server
    where = f"tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}"
    topic = serving.topic("work")
    serving.publish(topic, Event(value=b"secret"))
    target = zmq_source(where, socket="push", bind=False, content="bare", curve={"server_key": server[0].decode()})
    serving.route("out", topic=topic, destination=target)
    assert received(pull) == [b"secret"]


def test_a_route_keeps_its_secret_when_its_definition_is_sent_back_as_it_was_shown(serving: Serving) -> None:
    where, server, friend = address(), zmq.curve_keypair(), zmq.curve_keypair()
    curve = {"public_key": server[0].decode(), "secret_key": server[1].decode(), "allowed": [friend[0].decode()]}
    topic = serving.topic("prices")
    shown = serving.route("in", source=zmq_source(where, curve=curve), destination=to_topic(topic))
    again = serving.route("in", source=shown["source"], destination=to_topic(topic), on_failure="skip")
    assert again["source"] == shown["source"]
    wait_until(lambda: serving.shown("in")["state"] == "running", what="the route")
