"""An event published through any protocol and read through any other arrives the same.

Each way in has a topic of its own, and each topic every way out. What Kafka's client reads is the record; it must be the event
that was published, as docs/mapping.md says, and every other way out must show the same record.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import quote

import boto3
import httpx
import msgspec
import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from websockets.sync.client import connect as open_socket

import headrace
from headrace.record import Event, Record
from headrace.record.amqp.mapping import event_to_message
from headrace.testing import HeadraceServer, free_port, wait_until

pytestmark = pytest.mark.interop

WAIT_S = 30.0
EXAMPLES = 200 if os.environ.get("HEADRACE_SOAK") else 8
TOKEN = "correct-horse-battery"
WAYS_IN = ("kafka", "http", "ndjson", "raw", "socket", "amqp", "kinesis", "zmq", "udp", "webhook")
ADDED = ("amqp.", "webhook.", "http.")  # what a way in adds in a namespace of its own


# --- events


def texts(least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), min_size=least, max_size=most)


# librdkafka ends the name of a header at a NUL.
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
contents = st.one_of(
    st.binary(max_size=40),
    texts(0, 40).map(str.encode),
    st.sampled_from(
        [b"", b"null", b'"text"', b"5", b"-0.0", b"1e400", b"[1, 2]", b'{"a": {"b": null}}', b" {}", b"{}\n", b"\x00"]
    ),
    st.recursive(st.none() | st.booleans() | st.integers() | texts(0, 5), lambda inner: st.lists(inner, max_size=3)).map(
        lambda value: json.dumps(value).encode()
    ),
)
# Up to 2**44: whoever shows a time as a date can show it. From 1 on: librdkafka takes 0 for now.
events = st.builds(
    Event,
    key=st.none() | contents,
    value=st.none() | contents,
    headers=st.lists(st.tuples(names, st.none() | contents), max_size=4).map(tuple),
    timestamp_ms=st.integers(1, 2**44),
)
# What every message of AMQP can say by itself, and every request.
messages = st.builds(
    Event,
    key=texts(1, 60).map(str.encode),
    value=contents,
    headers=st.dictionaries(
        names.filter(lambda name: not name.startswith(ADDED)), texts(0, 12).map(str.encode), max_size=3
    ).map(lambda found: tuple(found.items())),
)
requests = st.builds(Event, key=st.from_regex(r"[a-zA-Z0-9_.-]{1,20}", fullmatch=True).map(str.encode), value=contents)
# Kinesis has a key of up to 256 characters always, a value always, and nothing else that whoever puts a record can choose.
puts = st.builds(Event, key=texts(1, 256).map(str.encode), value=contents)


# --- the server with its ways in and out


class Page(msgspec.Struct):
    events: list[Raw] = []


class Way(NamedTuple):
    """A way in: its topic, and how events are written to it."""

    name: str
    events: st.SearchStrategy[Event]
    write: Callable[[list[Event]], None]


class Site:
    """The server, its topics, and everything that listens for what comes out."""

    def __init__(self, server: HeadraceServer) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.http, timeout=WAIT_S)
        self.producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 0})
        self.consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "unused", "enable.auto.commit": False})
        self.read_so_far: dict[str, int] = {}
        self.kinesis = boto3.client(
            "kinesis",
            endpoint_url=server.kinesis,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="thing",
        )
        self.iterators: dict[str, str] = {}
        self.outlets: dict[tuple[str, str], Callable[[], Record]] = {}
        self.closing: list[Callable[[], object]] = [self.http.close, self.consumer.close]
        self._hooked: dict[str, queue.Queue[Record]] = {}
        self._hooks = self._receiver()

    def close(self) -> None:
        for close in reversed(self.closing):
            close()

    def topic(self, name: str) -> str:
        config = {
            "message.timestamp.before.max.ms": "9223372036854775807",
            "message.timestamp.after.max.ms": "9223372036854775807",
        }
        answer = self.http.post("/v1/topics", json={"name": name, "partitions": 1, "config": config})
        assert answer.status_code == 201, answer.text
        self.read_so_far[name] = 0
        return name

    def route(self, name: str, definition: dict[str, Any]) -> None:
        answer = self.http.put(f"/v1/routes/{name}", json=definition)
        assert answer.status_code == 201, answer.text

    # --- ways out

    def open_outlets(self, topic: str) -> None:
        port = free_port()
        self.route(
            f"{topic}-zmq",
            {"topic": topic, "destination": {"type": "zmq", "socket": "push", "address": f"tcp://127.0.0.1:{port}"}},
        )
        channel = headrace.connect(f"zmq+tcp://127.0.0.1:{port}")
        puller = channel.puller(bind=False)
        self.closing.append(channel.close)
        self.outlets[topic, "zmq"] = lambda: as_record(puller.receive(timeout_s=WAIT_S))

        feed_port = free_port()
        feed = headrace.connect(f"udp://239.255.77.7:{feed_port}?feed={topic}", recover=self.server.kafka)
        subscriber = feed.subscriber(start="earliest")
        self.closing.append(feed.close)
        self.route(f"{topic}-udp", {"topic": topic, "destination": {"type": "udp", "group": "239.255.77.7", "port": feed_port}})
        self.outlets[topic, "udp"] = lambda: as_record(subscriber.receive(timeout_s=WAIT_S))

        self._hooked[topic] = queue.Queue()
        url = f"http://127.0.0.1:{self._hooks}/{topic}"
        self.route(
            f"{topic}-hook",
            {"topic": topic, "destination": {"type": "webhook", "url": url, "order": "partition", "allow": ["127.0.0.1"]}},
        )
        self.outlets[topic, "webhook"] = lambda: self._hooked[topic].get(timeout=WAIT_S)

        asked = {"StreamName": topic, "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
        self.iterators[topic] = self.kinesis.get_shard_iterator(**asked)["ShardIterator"]

    def _receiver(self) -> int:
        hooked = self._hooked

        class Receiver(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hooked[self.path[1:]].put(record_of_request(self.headers, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.closing += [server.server_close, server.shutdown]
        return server.server_address[1]

    def read_kafka(self, topic: str, start: int, count: int) -> list[Record]:
        self.consumer.assign([TopicPartition(topic, 0, start)])
        found: list[Record] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records of {topic}"
            for message in self.consumer.consume(count - len(found), 0.2):
                assert message.error() is None, message.error()
                headers = tuple(message.headers() or ())
                found.append(Record(message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
        return found

    def read_kinesis(self, topic: str, count: int) -> list[tuple[str, bytes, int]]:
        """What comes next: partition key, data and time of arrival."""
        found: list[tuple[str, bytes, int]] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records of {topic}"
            answer = self.kinesis.get_records(ShardIterator=self.iterators[topic], Limit=count - len(found))
            self.iterators[topic] = answer["NextShardIterator"]
            for record in answer["Records"]:
                arrived_ms = round(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
                found.append((record["PartitionKey"], record["Data"], arrived_ms))
        return found

    def read_http(self, topic: str, start: int, count: int) -> list[Record]:
        answer = self.http.get(f"/v1/topics/{topic}/events", params={"partition": 0, "from": start, "limit": count})
        return [record_of(shown) for shown in msgspec.json.decode(answer.content, type=Page).events]

    def read_base64(self, topic: str, start: int, count: int) -> list[Record]:
        params = {"partition": 0, "from": start, "limit": count, "format": "base64"}
        lines = self.http.get(f"/v1/topics/{topic}/events", params=params, headers={"accept": "application/x-ndjson"})
        return [record_of(line) for line in lines.content.split(b"\n") if line]

    def read_stream(self, topic: str, start: int, count: int) -> list[Record]:
        found: list[Record] = []
        with self.http.stream("GET", f"/v1/topics/{topic}/stream", params={"partition": 0, "from": start}) as answer:
            for line in lines_of(answer):
                if line.startswith("data: {"):
                    found.append(record_of(line.removeprefix("data: ").encode()))
                    if len(found) == count:
                        break
        return found

    def read_socket(self, topic: str, start: int, count: int) -> list[Record]:
        found: list[Record] = []
        url = f"{self.server.http.replace('http', 'ws', 1)}/v1/topics/{topic}/socket?partition=0&from={start}"
        with open_socket(url, max_size=None) as socket:
            while len(found) < count:
                told = msgspec.json.decode(socket.recv(timeout=WAIT_S), type=Page)
                found += [record_of(shown) for shown in told.events]
        return found[:count]


def lines_of(answer: httpx.Response) -> Iterator[str]:
    """`iter_lines` would take other characters for line ends, too."""
    kept = b""
    for piece in answer.iter_raw():
        *whole, kept = (kept + piece).split(b"\n")
        yield from (line.decode() for line in whole)


def as_record(received: Any) -> Record:
    assert received is not None, "nothing came"
    event = received.event
    return Record(received.offset, event.timestamp_ms, event.key, event.value, event.headers)


def record_of(shown: bytes | Raw) -> Record:
    """By the rule of docs/http.md: JSON that is no string stands for its own text, byte for byte."""
    members = msgspec.json.decode(shown, type=dict[str, Raw])
    headers = tuple((plain(name).decode(), plain(value)) for name, value in json.loads(bytes(members["headers"])))
    offset, timestamp_ms = int(bytes(members["offset"])), int(bytes(members["timestamp"]))
    return Record(offset, timestamp_ms, member(members, "key"), member(members, "value"), headers)


def member(members: dict[str, Raw], name: str) -> bytes | None:
    if f"{name}_base64" in members:
        return base64.b64decode(json.loads(bytes(members[f"{name}_base64"])))
    raw = bytes(members[name])
    return plain(json.loads(raw)) if raw == b"null" or raw.startswith(b'"') else raw


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def record_of_request(headers: Any, body: bytes) -> Record:
    """By the table of docs/webhooks.md."""
    key = headers.get("headrace-key")
    key_base64 = headers.get("headrace-key-base64")
    found = json.loads(headers.get("headrace-headers", "[]"))
    moment = datetime.fromisoformat(headers["headrace-timestamp"])
    return Record(
        int(headers["headrace-offset"]),
        round(moment.timestamp() * 1000),
        base64.b64decode(key_base64) if key_base64 is not None else key.encode("latin-1") if key is not None else None,
        None if headers.get("headrace-tombstone") == "true" else body,
        tuple((name, plain(value)) for name, value in found),
    )


# --- ways in


def write_kafka(site: Site, topic: str, written: list[Event]) -> None:
    for event in written:
        site.producer.produce(topic, event.value, event.key, 0, headers=list(event.headers), timestamp=event.timestamp_ms)
    assert site.producer.flush(WAIT_S) == 0


def shown_event(event: Event) -> dict[str, Any]:
    """All of it as base64: the form that needs no rule."""
    headers = [[name, None if value is None else {"base64": encoded(value)}] for name, value in event.headers]
    shown: dict[str, Any] = {"headers": headers, "timestamp": event.timestamp_ms}
    shown |= {"key": None} if event.key is None else {"key_base64": encoded(event.key)}
    return shown | ({"value": None} if event.value is None else {"value_base64": encoded(event.value)})


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def write_http(site: Site, topic: str, written: list[Event]) -> None:
    answer = site.http.post(f"/v1/topics/{topic}/events", json=[shown_event(event) for event in written])
    assert answer.status_code == 200, answer.text


def write_lines(site: Site, topic: str, written: list[Event]) -> None:
    """With text as text where it is that."""
    lines = b"".join(json.dumps(with_text(event)).encode() + b"\n" for event in written)
    answer = site.http.post(f"/v1/topics/{topic}/events", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text


def with_text(event: Event) -> dict[str, Any]:
    shown = shown_event(event)
    for name, content in (("key", event.key), ("value", event.value)):
        try:
            text = None if content is None else content.decode()
        except UnicodeDecodeError:
            continue
        shown[name] = text
        shown.pop(f"{name}_base64", None)
    return shown


def write_raw(site: Site, topic: str, written: list[Event]) -> None:
    for event in written:
        query = f"key={quote(event.key)}&timestamp=1700000000000" if event.key is not None else "timestamp=1700000000000"
        headers = {"content-type": "application/octet-stream"}
        answer = site.http.post(f"/v1/topics/{topic}/events?{query}", content=event.value or b"", headers=headers)
        assert answer.status_code == 200, answer.text


def write_socket(site: Site, topic: str, written: list[Event]) -> None:
    with open_socket(f"{site.server.http.replace('http', 'ws', 1)}/v1/topics/{topic}/socket", max_size=None) as socket:
        socket.send(json.dumps({"type": "publish", "id": 1, "events": [shown_event(event) for event in written]}))
        told = json.loads(socket.recv(timeout=WAIT_S))
        assert told["type"] == "published", told


def write_amqp(site: Site, topic: str, written: list[Event]) -> None:
    with pika.BlockingConnection(pika.URLParameters(site.server.amqp)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for event in written:
            headers = {name: value.decode() for name, value in event.headers if value is not None}
            properties = pika.BasicProperties(headers=headers, delivery_mode=2)
            channel.basic_publish(f"{topic}-in", event.key.decode() if event.key else "", event.value or b"", properties)


def write_kinesis(site: Site, topic: str, written: list[Event]) -> None:
    assert all(event.key is not None for event in written)
    entries = [{"PartitionKey": (event.key or b"").decode(), "Data": event.value} for event in written]
    assert site.kinesis.put_records(StreamName=topic, Records=entries)["FailedRecordCount"] == 0


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with HeadraceServer(settings={"headrace.webhooks.allow": "127.0.0.1"}) as server:
        site = Site(server)
        try:
            yield site
        finally:
            site.close()


@pytest.fixture(scope="module")
def ways(site: Site) -> dict[str, Way]:
    found: dict[str, Way] = {}

    def add(name: str, strategy: st.SearchStrategy[Event], write: Callable[[list[Event]], None]) -> None:
        found[name] = Way(name, strategy, write)

    for name in WAYS_IN:
        site.topic(name)
        site.open_outlets(name)
    add("kafka", events, lambda written: write_kafka(site, "kafka", written))
    add("http", events, lambda written: write_http(site, "http", written))
    add("ndjson", events, lambda written: write_lines(site, "ndjson", written))
    bare = st.builds(Event, key=st.none() | contents, value=contents, timestamp_ms=st.just(1_700_000_000_000))
    add("raw", bare, lambda written: write_raw(site, "raw", written))
    add("socket", events, lambda written: write_socket(site, "socket", written))
    _stream_queue(site, "amqp")
    add("amqp", messages, lambda written: write_amqp(site, "amqp", written))
    add("kinesis", puts, lambda written: write_kinesis(site, "kinesis", written))

    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    into = {"type": "topic", "topic": "zmq"}
    site.route(
        "from-zmq", {"source": {"type": "zmq", "socket": "pull", "address": address, "envelope": "drop"}, "destination": into}
    )
    channel = headrace.connect(f"zmq+{address}")
    site.closing.append(channel.close)
    pusher = channel.pusher(bind=False)
    add("zmq", events, lambda written: [pusher.send(event, timeout_s=WAIT_S) for event in written] and None)

    port = free_port()
    source = {"type": "udp", "group": "239.255.77.8", "port": port, "feed": "in"}
    site.route("from-udp", {"source": source, "destination": {"type": "topic", "topic": "udp"}})
    wait_until(lambda: site.http.get("/v1/routes/from-udp").json()["state"] == "running", what="the route from UDP")
    feed = headrace.connect(f"udp://239.255.77.8:{port}?feed=in")
    site.closing.append(feed.close)
    publisher = feed.publisher()
    add("udp", events, lambda written: [publisher.send(event) for event in written] and publisher.flush())

    source = {"type": "webhook", "scheme": "token", "secrets": [TOKEN], "header": "x-token", "key_header": "x-key"}
    site.route("from-webhook", {"source": source, "destination": {"type": "topic", "topic": "webhook"}})
    add("webhook", requests, lambda written: [_send_hook(site, event) for event in written] and None)
    return found


def _stream_queue(site: Site, topic: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(site.server.amqp)) as connection:
        channel = connection.channel()
        channel.exchange_declare(f"{topic}-in", "fanout", durable=True)
        channel.queue_declare(topic, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(topic, f"{topic}-in")


def _send_hook(site: Site, event: Event) -> None:
    assert event.key is not None
    headers = {"x-token": TOKEN, "x-key": event.key.decode(), "content-type": "text/x-any"}
    answer = site.http.post("/v1/receive/from-webhook", content=event.value or b"", headers=headers)
    assert answer.status_code in (200, 202, 204), answer.text


def read_amqp(site: Site, topic: str, start: int, count: int) -> list[tuple[str, bytes, dict[str, Any]]]:
    with pika.BlockingConnection(pika.URLParameters(site.server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare(topic, durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_qos(prefetch_count=100)
        found = []
        for method, properties, body in channel.consume(topic, arguments={"x-stream-offset": start}, inactivity_timeout=WAIT_S):
            assert method is not None, f"{len(found)} of {count} messages of {topic}"
            headers = {name: value for name, value in properties.headers.items() if name != "x-stream-offset"}
            found.append((method.routing_key, body, headers))
            channel.basic_ack(method.delivery_tag)
            if len(found) == count:
                break
        channel.cancel()
    return found


def message_of(record: Record) -> tuple[str, bytes, dict[str, Any]]:
    """As pika decodes it."""
    _, routing_key, raw, body = event_to_message(record)
    properties = pika.BasicProperties()
    properties.decode(raw)
    return routing_key, body, properties.headers or {}


def put_of(record: Record) -> tuple[str, bytes, int]:
    """By the table of docs/mapping.md: there is always a key, and always data."""
    try:
        key = "-" if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        key = f"base64:{encoded(record.key or b'')}"
    return key, record.value or b"", record.timestamp_ms


def without_added(record: Record) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in record.headers if not name.startswith(ADDED))


def check_same(how: str, found: list[Any], expected: list[Any]) -> None:
    """With the first that differs in the text, and no more."""
    assert len(found) == len(expected), how
    for one, other in zip(found, expected, strict=True):
        assert one == other, f"{how}: {one!r} is not {other!r}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", WAYS_IN)
def test_an_event_published_through_one_protocol_is_the_same_through_every_other(name: str, site: Site, ways) -> None:
    way = ways[name]
    # Not shrunk: what an example wrote stays in the topic, and the next one begins behind it.

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(st.lists(way.events, min_size=1, max_size=8))
    def check(written: list[Event]) -> None:
        start, count = site.read_so_far[name], len(written)
        way.write(written)
        records = site.read_kafka(name, start, count)
        site.read_so_far[name] = start + count
        for event, record in zip(written, records, strict=True):
            assert (record.key, record.value) == (event.key, event.value)
            assert without_added(record) == event.headers if name in ("amqp", "webhook") else record.headers == event.headers
            assert event.timestamp_ms is None or record.timestamp_ms == event.timestamp_ms
        assert [record.offset for record in records] == list(range(start, start + count))
        for read in (site.read_http, site.read_base64, site.read_stream, site.read_socket):
            check_same(read.__name__, read(name, start, count), records)
        check_same("read_kinesis", site.read_kinesis(name, count), [put_of(record) for record in records])
        check_same("read_amqp", read_amqp(site, name, start, count), [message_of(record) for record in records])
        for outlet in ("zmq", "udp", "webhook"):
            check_same(outlet, [site.outlets[name, outlet]() for _ in records], records)

    check()
