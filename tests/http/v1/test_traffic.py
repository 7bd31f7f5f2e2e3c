"""What goes in and out by each protocol is counted: in the overview, and the same in the metrics."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pika
import pytest
import zmq
from botocore.config import Config
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from tests.http.v1.asking import V1
from websockets.sync.client import connect

from headrace.broker.traffic import Traffic
from headrace.testing import HeadraceServer, wait_until

BODY = b"x" * 1000
COUNT = 20
SIZE = COUNT * len(BODY)
ALONE = ("kafka", "amqp", "kinesis", "websocket", "zmq", "udp")  # nothing comes over them while a test looks
OUT_BY_RECORD = ("amqp", "kinesis", "zmq", "udp")


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"headrace.webhooks.allow": "127.0.0.0/8"}) as started:
        yield started


@pytest.fixture
def v1(server: HeadraceServer) -> V1:
    return V1(server)


def protocol(v1: V1, name: str) -> dict[str, Any]:
    found = v1.get("/v1/overview")["protocols"].get(name)
    return {"bytes_in": 0, "bytes_out": 0, "records_in": 0, "records_out": 0, "requests": 0} if found is None else found


def metrics(v1: V1, name: str, by: str, **labels: str) -> dict[str, float]:
    text = v1.ask("GET", "/metrics").content.decode()
    return {
        sample.labels[by]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    }


def wait_for(v1: V1, name: str, before: dict[str, Any], **more: int) -> dict[str, Any]:
    """Until so much more was counted, in the overview, which is a second old at most, and in the metrics."""

    def there() -> bool:
        now = protocol(v1, name)
        return all((now[part] or 0) >= (before[part] or 0) + count for part, count in more.items())

    def said_alike() -> bool:
        came, went = metrics(v1, "headrace_bytes_in_total", "protocol"), metrics(v1, "headrace_bytes_out_total", "protocol")
        now = protocol(v1, name)
        return (came[name], went[name]) == (now["bytes_in"], now["bytes_out"])

    wait_until(there, timeout_s=20, what=f"{name}: {more}")
    if name in ALONE:
        wait_until(said_alike, timeout_s=20, what=f"{name}: the metrics to say the same")
    if name in OUT_BY_RECORD:
        assert name in metrics(v1, "headrace_records_out_total", "protocol")
    return protocol(v1, name)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_kafka(server: HeadraceServer, v1: V1) -> None:
    before = protocol(v1, "kafka")
    producer = Producer({"bootstrap.servers": server.kafka})
    for _ in range(COUNT):
        producer.produce("by-kafka", BODY, partition=0)
    assert producer.flush(15) == 0
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "k", "enable.auto.commit": False})
    consumer.assign([TopicPartition("by-kafka", 0, 0)])
    assert len(consumer.consume(COUNT, 15)) == COUNT
    consumer.close()
    found = wait_for(v1, "kafka", before, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT)
    assert found["records_out"] is None


def test_amqp_counts_what_goes_through_its_sockets(server: HeadraceServer, v1: V1) -> None:
    before = protocol(v1, "amqp")
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("by-amqp", durable=True)
        for _ in range(COUNT):
            channel.basic_publish("", "by-amqp", BODY)
        got: list[bytes] = []
        channel.basic_consume("by-amqp", lambda *delivery: got.append(delivery[3]), auto_ack=True)
        wait_until(lambda: (connection.process_data_events(0.05), len(got) == COUNT)[1], timeout_s=30)
        while_open = wait_for(v1, "amqp", before, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, records_out=COUNT)
        assert while_open["bytes_in"] < SIZE + 10_000
        assert while_open["bytes_out"] < SIZE + 10_000
        assert while_open["connections"] == 1
    wait_until(lambda: protocol(v1, "amqp")["connections"] == 0)
    after = protocol(v1, "amqp")
    assert after["bytes_in"] >= while_open["bytes_in"], "what a closed connection has counted stays"
    assert after["records_in"] == while_open["records_in"]
    assert after["records_out"] == while_open["records_out"]


def test_amqp_tells_a_rate_while_messages_flow(server: HeadraceServer, v1: V1) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("rates", exclusive=True)

        def flows() -> bool:
            for _ in range(50):
                channel.basic_publish("", "rates", BODY)
            connection.process_data_events(0.01)
            now = protocol(v1, "amqp")
            return bool(now["bytes_in_per_s"] > 1000 and now["records_in_per_s"] > 1)

        wait_until(flows, timeout_s=30)


def test_methods_of_amqp_are_timed_up_to_their_answer(server: HeadraceServer, v1: V1) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("timed", durable=True)
        channel.basic_get("timed")
        channel.tx_select()
        channel.tx_commit()
        channel.queue_delete("timed")
    counts = metrics(v1, "headrace_request_seconds_count", "api", protocol="amqp")
    for api in ("queue.declare", "queue.delete", "basic.get", "tx.select", "tx.commit"):
        assert counts.get(api, 0) >= 1, counts


def test_kinesis(server: HeadraceServer, v1: V1) -> None:
    before = protocol(v1, "kinesis")
    kinesis = boto3.client(
        "kinesis", endpoint_url=server.listeners["kinesis"], region_name="us-east-1", aws_access_key_id="a",
        aws_secret_access_key="s", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    kinesis.create_stream(StreamName="by-kinesis", ShardCount=1)
    wait_until(
        lambda: kinesis.describe_stream_summary(StreamName="by-kinesis")["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"
    )
    kinesis.put_records(StreamName="by-kinesis", Records=[{"Data": BODY, "PartitionKey": "p"}] * COUNT)
    shard = {"StreamName": "by-kinesis", "ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    assert len(kinesis.get_records(ShardIterator=kinesis.get_shard_iterator(**shard)["ShardIterator"])["Records"]) == COUNT
    wait_for(v1, "kinesis", before, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, records_out=COUNT)


def test_http_and_websockets_are_two_protocols(server: HeadraceServer, v1: V1) -> None:
    http, sockets = protocol(v1, "http"), protocol(v1, "websocket")
    v1.publish("by-http", *[BODY.decode()] * COUNT, partition=0)
    assert len(v1.get("/v1/topics/by-http/events?partition=0&from=earliest&limit=100")["events"]) == COUNT
    after_http = wait_for(v1, "http", http, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, requests=2)
    assert protocol(v1, "websocket")["bytes_in"] == sockets["bytes_in"]
    url = server.http.replace("http", "ws") + "/v1/topics/by-socket/socket"
    v1.publish("by-socket", "first", partition=0)
    with connect(url + "?from=earliest") as link:
        event = {"value": BODY.decode(), "partition": 0}
        link.send(json.dumps({"type": "publish", "id": "1", "events": [event] * COUNT}))
        read = 0
        while read < COUNT + 1:
            said = json.loads(link.recv(timeout=15))
            read += len(said["events"]) if said["type"] == "events" else 0
        found = wait_for(v1, "websocket", sockets, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, requests=1)
        assert found["connections"] == 1
        assert protocol(v1, "http")["connections"] == 1, "the one that asks"
    assert protocol(v1, "http")["bytes_in"] < after_http["bytes_in"] + 1000
    wait_until(lambda: protocol(v1, "websocket")["connections"] == 0)


def test_zeromq(server: HeadraceServer, v1: V1) -> None:
    before = protocol(v1, "zmq")
    out, taken = free_port(), free_port()
    source = {"type": "zmq", "socket": "pull", "address": f"tcp://127.0.0.1:{taken}", "envelope": "drop"}
    target = {"type": "zmq", "socket": "push", "address": f"tcp://127.0.0.1:{out}"}
    context = zmq.Context()
    try:
        into = {"source": source, "destination": {"type": "topic", "topic": "z"}}
        assert v1.ask("PUT", "/v1/routes/z-in", into).status == 201
        assert v1.ask("PUT", "/v1/routes/z-out", {"topic": "z", "destination": target}).status == 201
        pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        pull.connect(f"tcp://127.0.0.1:{out}")
        push.connect(f"tcp://127.0.0.1:{taken}")
        for _ in range(COUNT):
            push.send_multipart([b"", BODY])
        for _ in range(COUNT):
            assert pull.poll(15_000)
            pull.recv_multipart()
        wait_for(v1, "zmq", before, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, records_out=COUNT)
    finally:
        context.destroy(linger=0)
        for name in ("z-in", "z-out"):
            v1.ask("DELETE", f"/v1/routes/{name}")


def test_multicast(v1: V1) -> None:
    before = protocol(v1, "udp")
    port = free_port()
    source = {"type": "udp", "group": "239.255.77.31", "port": port, "feed": "m"}
    target = {"type": "udp", "group": "239.255.77.31", "port": port, "feed": "m"}
    try:
        into = {"source": source, "destination": {"type": "topic", "topic": "m-copy"}}
        assert v1.ask("PUT", "/v1/routes/m-in", into).status == 201
        wait_until(lambda: v1.get("/v1/routes/m-in")["state"] == "running")
        v1.publish("m", *[BODY.decode()] * COUNT, partition=0)
        assert v1.ask("PUT", "/v1/routes/m-out", {"topic": "m", "destination": target}).status == 201
        wait_for(v1, "udp", before, bytes_in=SIZE, bytes_out=SIZE, records_in=COUNT, records_out=COUNT)
    finally:
        for name in ("m-in", "m-out"):
            v1.ask("DELETE", f"/v1/routes/{name}")


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_webhooks(v1: V1) -> None:
    before = protocol(v1, "webhook")
    with HTTPServer(("127.0.0.1", 0), _Taker) as endpoint:
        Thread(target=endpoint.serve_forever).start()
        try:
            v1.publish("hooked", *[BODY.decode()] * COUNT, partition=0)
            target = {"type": "webhook", "url": f"http://127.0.0.1:{endpoint.server_port}/"}
            assert v1.ask("PUT", "/v1/routes/hook", {"topic": "hooked", "destination": target}).status == 201
            wait_for(v1, "webhook", before, bytes_out=SIZE, records_out=COUNT)
        finally:
            v1.ask("DELETE", "/v1/routes/hook")
            endpoint.shutdown()


def test_the_metrics_tell_of_the_same_protocols(v1: V1) -> None:
    found = v1.get("/v1/overview")["protocols"]
    came, went = metrics(v1, "headrace_bytes_in_total", "protocol"), metrics(v1, "headrace_bytes_out_total", "protocol")
    assert came.keys() == went.keys() == found.keys()


def test_what_a_deleted_topic_has_counted_stays_in_the_total() -> None:
    traffic = Traffic()
    traffic.bytes_in["a"] += 5
    traffic.bytes_in["b"] += 7
    traffic.bytes_out["a"] += 3
    traffic.forget_unknown({"b"})
    assert dict(traffic.bytes_in) == {"b": 7}
    assert (traffic.total_in, traffic.total_out) == (12, 3)
    traffic.forget_unknown(set())
    assert (traffic.total_in, traffic.total_out) == (12, 3)
    traffic.wire_in = 100
    assert (traffic.total_in, traffic.total_out) == (100, 3)
