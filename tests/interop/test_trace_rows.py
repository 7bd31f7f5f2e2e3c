"""Each row of the table in docs/tracing.md that is about carrying a trace, with real clients: in by that way and out as Kafka
has it, or in by Kafka and out by that way. (HTTP, AMQP streams and webhooks are in `test_trace_context`.)"""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import boto3
import confluent_kafka
import pika
import pytest
from botocore.config import Config
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.interop.traced import KEPT, TRACE, ask, kafka_headers, put_route, trace_in
from websockets.sync.client import connect

import headrace
from headrace import Event
from headrace.testing import HeadraceServer, free_port, wait_until

pytestmark = pytest.mark.interop

PAIRS = [[name, value] for name, value in TRACE.items()]
EVENT = Event(b"k", b"v", tuple(KEPT), 1_700_000_000_000)


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"num.partitions": 1, "group.share.min.record.lock.duration.ms": 1000}) as server:
        yield server


@pytest.fixture
def topic(server: HeadraceServer) -> str:
    name = f"trace-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": server.kafka})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(15)
    return name


@pytest.fixture
def channel(server: HeadraceServer) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as link:
        channel = link.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def kinesis(server: HeadraceServer) -> Iterator[Any]:
    client = boto3.client(
        "kinesis",
        endpoint_url=server.kinesis,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with closing(client):
        yield client


def produce(server: HeadraceServer, topic: str, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": server.kafka})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"k", partition=0, headers=[*KEPT])
    assert producer.flush(15) == 0


def running(server: HeadraceServer, route: str) -> None:
    wait_until(lambda: json.loads(ask(server, "GET", f"/v1/routes/{route}")[2])["state"] == "running", what=f"route {route}")


# --- Kafka, and what HTTP shows


def test_kafka_to_kafka(server: HeadraceServer, topic: str) -> None:
    produce(server, topic)
    assert kafka_headers(server, topic, 1) == [KEPT]


def test_pages_and_lines_of_http(server: HeadraceServer, topic: str) -> None:
    produce(server, topic)
    path = f"/v1/topics/{topic}/events?from=earliest"
    assert json.loads(ask(server, "GET", path)[2])["events"][0]["headers"] == PAIRS
    (line,) = ask(server, "GET", path, headers={"accept": "application/x-ndjson"})[2].splitlines()
    assert json.loads(line)["headers"] == PAIRS


def test_server_sent_events(server: HeadraceServer, topic: str) -> None:
    produce(server, topic)
    host, port = server.http.removeprefix("http://").split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=20)) as connection:
        connection.request("GET", f"/v1/topics/{topic}/stream?from=earliest")
        answer = connection.getresponse()
        line = next(line for line in iter(answer.readline, b"") if line.startswith(b"data: {"))
    assert json.loads(line.removeprefix(b"data: "))["headers"] == PAIRS


def test_websocket_in_and_out(server: HeadraceServer, topic: str) -> None:
    url = f"{server.http.replace('http', 'ws', 1)}/v1/topics/{topic}/socket"
    handshake = {"traceparent": TRACE["traceparent"]}
    with connect(url, additional_headers=handshake) as socket:
        events = [{"value": 1, "headers": PAIRS}, {"value": 2}]
        socket.send(json.dumps({"type": "publish", "id": 1, "events": events}))
        assert json.loads(socket.recv(timeout=20))["type"] == "published"
    assert kafka_headers(server, topic, 2) == [KEPT, []]  # the handshake's is of no event
    with connect(f"{url}?partition=0&from=earliest") as socket:
        told = json.loads(socket.recv(timeout=20))
        while told["type"] != "events":
            told = json.loads(socket.recv(timeout=20))
    assert told["events"][0]["headers"] == PAIRS


# --- Kinesis


def test_records_of_kinesis_have_the_trace_of_their_request_and_show_none(
    server: HeadraceServer, topic: str, kinesis: Any
) -> None:
    def add_trace(request: Any, **_: Any) -> None:
        for name, value in TRACE.items():
            request.headers[name] = value

    kinesis.put_record(StreamName=topic, PartitionKey="p", Data=b"0")
    kinesis.meta.events.register("before-send.kinesis", add_trace)
    kinesis.put_record(StreamName=topic, PartitionKey="p", Data=b"1")
    kinesis.put_records(
        StreamName=topic,
        Records=[{"PartitionKey": "p", "Data": b"2"}, {"PartitionKey": "p", "Data": b"3", "ExplicitHashKey": "7"}],
    )
    explicit = ("kinesis.explicit-hash-key", b"7")
    assert kafka_headers(server, topic, 4) == [[], KEPT, KEPT, [explicit, *KEPT]]
    shard = {"StreamName": topic, "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    records = kinesis.get_records(ShardIterator=kinesis.get_shard_iterator(**shard)["ShardIterator"])["Records"]
    assert [record["Data"] for record in records] == [b"0", b"1", b"2", b"3"]
    assert not [name for record in records for name in record if "trace" in name.lower()]


# --- ZeroMQ and multicast


def test_zeromq_in_and_out(server: HeadraceServer, topic: str) -> None:
    into, out = free_port(), free_port()
    source = {"type": "zmq", "socket": "pull", "address": f"tcp://127.0.0.1:{into}", "envelope": "drop"}
    put_route(server, f"{topic}-in", source=source, destination={"type": "topic", "topic": topic})
    target = {"type": "zmq", "socket": "push", "address": f"tcp://127.0.0.1:{out}"}
    put_route(server, f"{topic}-out", topic=topic, destination=target)
    with closing(headrace.connect(f"zmq+tcp://127.0.0.1:{into}")) as link:
        link.pusher(bind=False).send(EVENT, timeout_s=20)
        assert kafka_headers(server, topic, 1) == [KEPT]
    with closing(headrace.connect(f"zmq+tcp://127.0.0.1:{out}")) as link:
        received = link.puller(bind=False).receive(timeout_s=20)
    assert received is not None
    assert received.event.headers == tuple(KEPT)


def test_multicast_in_and_out(server: HeadraceServer, topic: str) -> None:
    into, out = free_port(), free_port()
    source = {"type": "udp", "group": "239.255.77.21", "port": into, "feed": "in"}
    put_route(server, f"{topic}-in", source=source, destination={"type": "topic", "topic": topic})
    running(server, f"{topic}-in")
    with closing(headrace.connect(f"udp://239.255.77.21:{into}?feed=in")) as feed:
        publisher = feed.publisher()
        publisher.send(EVENT)
        publisher.flush()
        assert kafka_headers(server, topic, 1) == [KEPT]
    with closing(headrace.connect(f"udp://239.255.77.22:{out}?feed={topic}", recover=server.kafka)) as feed:
        subscriber = feed.subscriber(start="earliest")
        put_route(server, f"{topic}-out", topic=topic, destination={"type": "udp", "group": "239.255.77.22", "port": out})
        received = subscriber.receive(timeout_s=20)
    assert received is not None
    assert received.event.headers == tuple(KEPT)


# --- routes, and what could not be delivered


def test_a_route_to_a_topic_and_one_to_an_exchange(server: HeadraceServer, topic: str, channel: Any) -> None:
    channel.queue_declare(f"{topic}-queue", durable=True)
    put_route(server, f"{topic}-t", topic=topic, destination={"type": "topic", "topic": f"{topic}-copy"})
    target = {"type": "exchange", "vhost": "/", "exchange": "", "routing_key": f"{topic}-queue"}
    put_route(server, f"{topic}-x", topic=topic, destination=target)
    produce(server, topic)
    assert kafka_headers(server, f"{topic}-copy", 1) == [KEPT]
    assert message_of(channel, f"{topic}-queue").items() >= TRACE.items()


def test_dead_letters_of_a_route(server: HeadraceServer, topic: str) -> None:
    definition = {"destination": {"type": "topic", "topic": f"{topic}-copy"}, "transform": {"value": "value.nothing.there"}}
    put_route(server, f"{topic}-t", topic=topic, **definition)
    produce(server, topic)
    assert trace_in(kafka_headers(server, f"{topic}-t.dead-letters", 1)[0]) == KEPT


def test_dead_letters_of_a_share_group(server: HeadraceServer, topic: str) -> None:
    if not hasattr(confluent_kafka, "ShareConsumer"):
        pytest.skip("this confluent-kafka has no ShareConsumer")
    group, dead = f"{topic}-pool", f"dlq.{topic}"
    config = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": dead}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": server.kafka})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(15)
    produce(server, topic)
    settings = {"bootstrap.servers": server.kafka, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with closing(confluent_kafka.ShareConsumer(settings)) as consumer:
        consumer.subscribe([topic])
        found: list[Any] = []
        poll: Callable[[], Any] = lambda: found.extend(m for m in consumer.poll(0.2) if m.error() is None)  # noqa: E731
        wait_until(lambda: poll() or found, timeout_s=20, what="a record")
        assert found[0].headers() == KEPT
        consumer.acknowledge(found[0], confluent_kafka.AcknowledgeType.REJECT)
        assert all(error is None for error in consumer.commit_sync().values())
    assert trace_in(kafka_headers(server, dead, 1)[0]) == KEPT


# --- queues of AMQP


def message_of(channel: Any, queue: str) -> dict[str, Any]:
    """The headers of the first one."""
    method, properties, _ = next(channel.consume(queue, inactivity_timeout=20))
    assert method is not None, "nothing came"
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    return dict(properties.headers)


def test_the_management_api_shows_what_a_message_has(server: HeadraceServer, channel: Any) -> None:
    queue = f"trace-{uuid.uuid4().hex[:8]}"
    channel.queue_declare(queue, durable=True)
    message = {"properties": {"headers": TRACE}, "routing_key": queue, "payload": "v", "payload_encoding": "string"}
    ask(server, "POST", "/api/exchanges/%2F/amq.default/publish", json.dumps(message).encode(), {"traceparent": "x"})
    wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    (got,) = json.loads(ask(server, "POST", f"/api/queues/%2F/{queue}/get", json.dumps(wanted).encode())[2])
    assert got["properties"]["headers"] == TRACE
    assert message_of(channel, queue) == TRACE


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_of_amqp_and_its_dead_letters(channel: Any, kind: str) -> None:
    queue = f"trace-{uuid.uuid4().hex[:8]}"
    channel.queue_declare(f"{queue}.dead", durable=True)
    arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}.dead"}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.basic_publish("", queue, b"v", pika.BasicProperties(headers=dict(TRACE), delivery_mode=2))
    method, properties, _ = next(channel.consume(queue, inactivity_timeout=20))
    assert properties.headers.items() >= TRACE.items()
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.cancel()
    dead = message_of(channel, f"{queue}.dead")
    assert dead.items() >= TRACE.items()
    assert dead["x-death"][0]["queue"] == queue
