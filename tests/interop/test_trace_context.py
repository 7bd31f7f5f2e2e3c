"""The trace of an event goes through every protocol: traceparent and tracestate, in by one way and out by another."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pika
import pytest
from confluent_kafka import Producer
from tests.interop.traced import KEPT, OTHER, PARENT, STATE, TRACE, ask, kafka_headers, publish

from headrace.testing import HeadraceServer, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with HeadraceServer(settings={"headrace.webhooks.allow": "127.0.0.0/8", "num.partitions": 1}) as server:
        yield server


@pytest.fixture
def topic() -> str:
    return f"trace-{uuid.uuid4().hex[:8]}"


def test_the_trace_of_a_request_is_that_of_its_events(server: HeadraceServer, topic: str) -> None:
    publish(server, topic, b'{"value": 1}', "application/json", **TRACE)  # makes the topic: the general way
    publish(server, topic, b'{"value": 2, "headers": [["a", "b"]]}', "application/json", **TRACE)  # the quick way
    publish(server, topic, b"a value", "text/plain", **TRACE)
    publish(server, topic, b'[{"value": 4}, {"value": 5}]', "application/json", **TRACE)
    publish(server, topic, b'{"value": 6}\n{"value": 7}\n', "application/x-ndjson", **TRACE)
    publish(server, topic, b'{"value": 8}\n', "application/x-ndjson", idempotency_key="k", **TRACE)
    assert kafka_headers(server, topic, 8) == [KEPT, [("a", b"b"), *KEPT], *[KEPT] * 6]


def test_an_event_with_a_trace_of_its_own_keeps_it_and_nonsense_is_not_kept(server: HeadraceServer, topic: str) -> None:
    own = json.dumps({"value": 1, "headers": [["traceparent", OTHER]]}).encode()
    for _ in range(2):  # the general way, and the quick one
        publish(server, topic, own, "application/json", **TRACE)
        publish(server, topic, b'{"value": 2}', "application/json", traceparent=PARENT.upper(), tracestate=STATE)
        publish(server, topic, b'{"value": 3}', "application/json", traceparent=PARENT, tracestate="not one")
        publish(server, topic, b'{"value": 4}', "application/json")
    expected = [[("traceparent", OTHER.encode())], [], KEPT[:1], []]
    assert kafka_headers(server, topic, 8) == expected * 2


def test_a_request_made_again_within_another_span_is_the_same_request(server: HeadraceServer, topic: str) -> None:
    first = publish(server, topic, b'{"value": 1}', "application/json", idempotency_key="once", traceparent=PARENT)
    again = publish(server, topic, b'{"value": 1}', "application/json", idempotency_key="once", traceparent=OTHER)
    assert first == again
    assert kafka_headers(server, topic, 1) == [KEPT[:1]]


def test_a_kafka_record_shows_its_trace_over_http_and_amqp(server: HeadraceServer, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.kafka})
    link = pika.BlockingConnection(pika.URLParameters(server.amqp))
    channel = link.channel()
    channel.queue_declare(topic, durable=True, arguments={"x-queue-type": "stream"})
    producer.produce(topic, b"v", partition=0, headers=[*KEPT])
    assert producer.flush(15) == 0
    path = f"/v1/topics/{topic}/partitions/0/events/0"
    for accept in ("application/json", "application/octet-stream"):
        _, headers, _ = ask(server, "GET", path, headers={"accept": accept})
        assert {name: headers.get(name) for name in TRACE} == TRACE
    channel.basic_qos(prefetch_count=1)
    _, properties, _ = next(channel.consume(topic, arguments={"x-stream-offset": "first"}, inactivity_timeout=20))
    assert {name: properties.headers[name] for name in TRACE} == TRACE
    link.close()


def test_an_amqp_message_shows_its_trace_over_kafka_and_http(server: HeadraceServer, topic: str) -> None:
    link = pika.BlockingConnection(pika.URLParameters(server.amqp))
    channel = link.channel()
    channel.confirm_delivery()
    channel.queue_declare(topic, durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_publish("", topic, b"v", pika.BasicProperties(headers=dict(TRACE)))
    link.close()
    (headers,) = kafka_headers(server, topic, 1)
    assert [header for header in headers if header[0] in TRACE] == KEPT
    _, answer, _ = ask(server, "GET", f"/v1/topics/{topic}/partitions/0/events/0")
    assert {name: answer.get(name) for name in TRACE} == TRACE


def test_a_webhook_carries_the_trace_out_and_a_receive_url_takes_it_in(server: HeadraceServer, topic: str) -> None:
    came: list[dict[str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            came.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        source = {"source": {"type": "webhook", "scheme": "none"}, "destination": {"type": "topic", "topic": topic}}
        target = {"topic": topic, "destination": {"type": "webhook", "url": f"http://127.0.0.1:{receiver.server_port}/"}}
        ask(server, "PUT", f"/v1/routes/{topic}-in", json.dumps(source).encode(), {"content-type": "application/json"})
        ask(server, "PUT", f"/v1/routes/{topic}-out", json.dumps(target).encode(), {"content-type": "application/json"})
        ask(server, "POST", f"/v1/receive/{topic}-in", b"{}", {**TRACE, "content-type": "application/json"})
        ask(server, "POST", f"/v1/receive/{topic}-in", b"{}", {"traceparent": "nonsense", "content-type": "application/json"})
        assert [header for header in kafka_headers(server, topic, 2)[0] if header[0] in TRACE] == KEPT
        wait_until(lambda: len(came) == 2, timeout_s=20, what="two deliveries")
        assert sorted(kafka_headers(server, f"{topic}-out.attempts", 2)) == [[], KEPT]
    finally:
        for end in ("in", "out"):
            ask(server, "DELETE", f"/v1/routes/{topic}-{end}")
        receiver.shutdown()
        receiver.server_close()
    came.sort(key=lambda headers: int(headers["headrace-offset"]))
    assert {name: came[0].get(name) for name in TRACE} == TRACE
    assert not TRACE.keys() & came[1].keys()
