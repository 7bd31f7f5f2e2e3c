"""Spans of a real server, as a collector gets them: who is whose parent, through every way that has them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pika
import pytest
from botocore.config import Config
from confluent_kafka import Producer
from tests.interop.traced import (
    KEPT,
    PARENT_ID,
    STATE,
    TRACE,
    TRACE_ID,
    UNSAMPLED,
    Receiver,
    ask,
    kafka_headers,
    publish,
    put_route,
    receiver,
    spans_in,
    trace_in,
    wait_for_spans,
)

from headrace.testing import HeadraceServer, ServerFailed, free_port, wait_until

pytestmark = pytest.mark.interop

SERVER, CLIENT, CONSUMER, ERROR = 2, 3, 5, 2


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture(scope="module")
def server(collector: Receiver) -> Iterator[HeadraceServer]:
    settings = {
        "headrace.tracing.endpoint": collector.url,
        "headrace.tracing.headers": "x-tenant=a%20team, authorization=Bearer%20t",
        "headrace.tracing.service.name": "shop-broker",
        "headrace.webhooks.allow": "127.0.0.0/8",
        "num.partitions": 1,
    }
    with HeadraceServer(settings=settings) as server:
        yield server


@pytest.fixture
def topic() -> str:
    return f"spans-{uuid.uuid4().hex[:8]}"


def spans_of(collector: Receiver, topic: str, count: int) -> list[dict[str, Any]]:
    """All about this topic, in the order in which they began."""
    wanted = wait_for_spans(collector, lambda span: span["attributes"]["messaging.destination.name"].startswith(topic), count)
    return sorted(wanted, key=lambda span: int(span["startTimeUnixNano"]))


def parent_of(span: dict[str, Any]) -> bytes:
    return f"00-{span['traceId']}-{span['spanId']}-01".encode()


def test_one_trace_from_a_publish_over_a_route_to_each_attempt_of_a_webhook(
    server: HeadraceServer, collector: Receiver, topic: str
) -> None:
    second = f"{topic}-2"
    with receiver() as endpoint:
        endpoint.answers.append((503, {}))
        put_route(server, f"{topic}-r", topic=topic, destination={"type": "topic", "topic": second})
        target = {"type": "webhook", "url": f"{endpoint.url}/secret", "first_pause_s": 0.05}
        put_route(server, f"{topic}-w", topic=second, destination=target)
        publish(server, topic, b'{"value": 1}', "application/json", **TRACE)
        wait_until(lambda: len(endpoint.came) == 2, timeout_s=20, what="two attempts")
        published, hop, first, last = spans_of(collector, topic, 4)
        requests = [head for head, _ in endpoint.came]
        for end in ("r", "w"):
            ask(server, "DELETE", f"/v1/routes/{topic}-{end}")

    assert {span["traceId"] for span in (published, hop, first, last)} == {TRACE_ID}
    assert {span["traceState"] for span in (published, hop, first, last)} == {STATE}
    assert [span["parentSpanId"] for span in (published, hop, first, last)] == [
        PARENT_ID, published["spanId"], hop["spanId"], hop["spanId"],
    ]  # fmt: skip
    assert [span["name"] for span in (published, hop, first)] == [f"publish {topic}", f"route {topic}", f"deliver {second}"]
    assert [span["kind"] for span in (published, hop, first, last)] == [SERVER, CONSUMER, CLIENT, CLIENT]
    # what is stored names the span that stored it, and a request the attempt that it is
    assert kafka_headers(server, topic, 1) == [[("traceparent", parent_of(published)), KEPT[1]]]
    assert kafka_headers(server, second, 1) == [[("traceparent", parent_of(hop)), KEPT[1]]]
    assert [head["traceparent"].encode() for head in requests] == [parent_of(first), parent_of(last)]
    attempts = kafka_headers(server, f"{topic}-w.attempts", 2)
    assert attempts == [[("traceparent", parent_of(attempt)), KEPT[1]] for attempt in (first, last)]
    assert [head["tracestate"] for head in requests] == [STATE, STATE]

    assert (published.get("status"), last.get("status")) == (None, None)
    assert first["status"] == {"code": ERROR, "message": "HTTP 503"}
    assert (first["attributes"]["error.type"], first["attributes"]["http.response.status_code"]) == ("503", 503)
    assert (last["attributes"]["http.response.status_code"], last["attributes"]["http.request.resend_count"]) == (200, 1)
    assert hop["attributes"].items() >= {
        "messaging.system": "headrace", "messaging.operation.name": "route", "messaging.operation.type": "process",
        "messaging.destination.partition.id": "0", "messaging.kafka.offset": 0, "headrace.route.name": f"{topic}-r",
    }.items()  # fmt: skip
    assert "secret" not in json.dumps([first, last])
    for span in (published, hop, first, last):
        assert span["flags"] == 0x301
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])


def test_every_way_of_publishing_over_http_has_one_span_for_a_request(
    server: HeadraceServer, collector: Receiver, topic: str
) -> None:
    for body, kind in [
        (b'{"value": 1}', "application/json"),  # the general way, which makes the topic
        (b'{"value": 2}', "application/json"),  # the quick way
        (b"3", "text/plain"),
        (b'[{"value": 4}, {"value": 5}]', "application/json"),
        (b'{"value": 6}\n{"value": 7}\n', "application/x-ndjson"),
    ]:
        publish(server, topic, body, kind, **TRACE)
    publish(server, topic, b'{"value": 8}', "application/json", traceparent=UNSAMPLED)
    publish(server, topic, b'{"value": 9}', "application/json")
    stored = [dict(headers) for headers in kafka_headers(server, topic, 9)]
    spans = spans_of(collector, topic, 5)
    assert {(span["parentSpanId"], span["name"]) for span in spans} == {(PARENT_ID, f"publish {topic}")}
    expected = [parent_of(spans[number]) for number in (0, 1, 2, 3, 3, 4, 4)]
    assert [headers.get("traceparent") for headers in stored] == [*expected, UNSAMPLED.encode(), None]


def test_a_publish_that_fails_says_so_and_a_stranger_leaves_no_span(
    server: HeadraceServer, collector: Receiver, topic: str
) -> None:
    publish(server, topic, b'{"value": 1}', "application/json", **TRACE)
    stranger = {"Authorization": "Basic eDp4", "content-type": "application/json", **TRACE}
    with pytest.raises(AssertionError):
        ask(server, "POST", f"/v1/topics/{topic}/events", b'{"value": 2}', stranger)
    with pytest.raises(AssertionError):
        publish(server, topic, b"{", "application/json", **TRACE)
    spans = spans_of(collector, topic, 2)
    assert [span.get("status", {}).get("code") for span in spans] == [None, ERROR]
    assert spans[1]["attributes"]["http.response.status_code"] == 400


def test_a_received_webhook_begins_where_its_sender_is(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    source = {"type": "webhook", "scheme": "token", "secrets": ["a-long-enough-token"], "header": "x-token"}
    put_route(server, f"{topic}-in", source=source, destination={"type": "topic", "topic": topic})
    path = f"/v1/receive/{topic}-in"
    ask(server, "POST", path, b"{}", {**TRACE, "content-type": "application/json", "x-token": "a-long-enough-token"})
    with pytest.raises(AssertionError, match="not_verified"):
        ask(server, "POST", path, b"{}", {**TRACE, "x-token": "another-token-of-somebody"})
    (span,) = spans_of(collector, topic, 1)
    assert (span["parentSpanId"], span["kind"], span["name"]) == (PARENT_ID, SERVER, f"publish {topic}")
    assert span["attributes"]["headrace.route.name"] == f"{topic}-in"
    assert trace_in(kafka_headers(server, topic, 1)[0])[0] == ("traceparent", parent_of(span))
    ask(server, "DELETE", f"/v1/routes/{topic}-in")


def test_a_produce_request_has_one_span_by_its_first_record_and_records_stay_as_they_were(
    server: HeadraceServer, collector: Receiver, topic: str
) -> None:
    publish(server, topic, b'{"value": 0}', "application/json")
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 200, "compression.type": "none"})
    for _ in range(5):
        producer.produce(topic, b"v", b"k", partition=0, headers=[*KEPT])
    assert producer.flush(15) == 0
    (span,) = spans_of(collector, topic, 1)
    assert (span["parentSpanId"], span["kind"], span["name"]) == (PARENT_ID, SERVER, f"publish {topic}")
    assert span["attributes"].items() >= {"messaging.system": "kafka", "messaging.batch.message_count": 5}.items()
    assert kafka_headers(server, topic, 6) == [[], *[KEPT] * 5]


def test_a_compressed_batch_is_not_looked_into(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    publish(server, topic, b'{"value": 0}', "application/json")
    for compression in ("gzip", "none"):
        producer = Producer({"bootstrap.servers": server.kafka, "compression.type": compression})
        producer.produce(topic, b"v" * 1000, partition=0, headers=[*KEPT])
        assert producer.flush(15) == 0
    assert len(spans_of(collector, topic, 1)) == 1  # the second one's


def test_a_message_of_amqp_has_a_span_and_stays_as_it_was(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as link:
        channel = link.channel()
        channel.confirm_delivery()
        channel.exchange_declare(topic, "topic", durable=True)
        channel.queue_declare(topic, durable=True)
        channel.queue_bind(topic, topic, "a.#")
        properties = pika.BasicProperties(headers=dict(TRACE), delivery_mode=2)
        channel.basic_publish(topic, "a.b", b"1", properties)
        channel.basic_publish(topic, "nobody", b"2", properties)
        channel.basic_publish(topic, "a.b", b"3", pika.BasicProperties(headers={"traceparent": "nonsense"}))
        channel.basic_publish(topic, "a.b", b"4", properties, mandatory=True)
        _, kept, _ = channel.basic_get(topic, auto_ack=True)
        assert kept.headers == TRACE
    spans = spans_of(collector, topic, 3)
    assert {span["parentSpanId"] for span in spans} == {PARENT_ID}
    assert [span["attributes"]["headrace.routed"] for span in spans] == [True, False, True]
    assert spans[0]["attributes"].items() >= {
        "messaging.system": "rabbitmq", "messaging.destination.name": topic,
        "messaging.rabbitmq.destination.routing_key": "a.b", "messaging.operation.type": "send",
    }.items()  # fmt: skip


def test_what_a_queue_refuses_and_what_a_transaction_holds(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    properties = pika.BasicProperties(headers=dict(TRACE))
    with pika.BlockingConnection(pika.URLParameters(server.amqp)) as link:
        channel = link.channel()
        channel.confirm_delivery()
        channel.queue_declare(topic, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        channel.basic_publish("", topic, b"1", properties)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", topic, b"2", properties)
        transaction = link.channel()
        transaction.tx_select()
        transaction.basic_publish("", topic, b"3", properties)
        transaction.tx_rollback()
    spans = spans_of(collector, topic, 3)
    assert [span["attributes"].get("error.type") for span in spans] == [None, "rejected", None]
    assert [span["attributes"].get("headrace.routed") for span in spans] == [True, None, None]


def test_a_put_of_kinesis_has_a_span(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    publish(server, topic, b'{"value": 0}', "application/json")
    client = boto3.client(
        "kinesis", endpoint_url=server.kinesis, region_name="us-east-1", aws_access_key_id="t", aws_secret_access_key="t",
        config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    client.meta.events.register("before-send.kinesis", lambda request, **_: request.headers.update(TRACE))
    client.put_records(StreamName=topic, Records=[{"PartitionKey": "p", "Data": b"1"}] * 2)
    client.close()
    (span,) = spans_of(collector, topic, 1)
    assert (span["parentSpanId"], span["attributes"]["messaging.system"]) == (PARENT_ID, "aws.kinesis")
    stored = [("traceparent", parent_of(span)), KEPT[1]]
    assert kafka_headers(server, topic, 3) == [[], stored, stored]


def test_what_the_collector_is_told_of_the_server(server: HeadraceServer, collector: Receiver, topic: str) -> None:
    publish(server, topic, b'{"value": 1}', "application/json", **TRACE)
    spans_of(collector, topic, 1)
    head, first = collector.came[0]
    assert json.loads(first) == {"resourceSpans": []}  # asked at start, whether somebody is there
    assert (head[":path"], head["content-type"]) == ("/v1/traces", "application/json")
    assert (head["x-tenant"], head["authorization"]) == ("a team", "Bearer t")
    resource = json.loads(collector.came[-1][1])["resourceSpans"][0]["resource"]["attributes"]
    assert {"key": "service.name", "value": {"stringValue": "shop-broker"}} in resource
    metrics = ask(server, "GET", "/metrics")[2].decode()
    assert "headrace_spans_collector_up 1.0" in metrics
    assert 'headrace_spans_dropped_total{reason="full"} 0.0' in metrics
    settings = ask(server, "GET", "/v1/settings")[2]
    assert b"Bearer" not in settings
    assert all(span["name"] for span in spans_in(collector))


def test_a_share_of_what_comes_without_a_trace_begins_one(collector: Receiver, topic: str) -> None:
    settings = {"headrace.tracing.endpoint": f"{collector.url}/v1/traces", "headrace.tracing.sample.ratio": "1.0"}
    with HeadraceServer(settings=settings) as server:
        publish(server, topic, b'{"value": 1}', "application/json")
        publish(server, topic, b'{"value": 2}', "application/json", traceparent=UNSAMPLED)
        stored = kafka_headers(server, topic, 2)
    (span,) = spans_of(collector, topic, 1)  # sent when the server stopped, at the latest
    assert "parentSpanId" not in span
    assert span["flags"] == 0x101
    assert stored == [[("traceparent", parent_of(span))], [("traceparent", UNSAMPLED.encode())]]


def test_a_collector_that_is_not_there_hurts_nobody_and_is_told_of(topic: str) -> None:
    port = free_port()
    settings = {"headrace.tracing.endpoint": f"http://127.0.0.1:{port}", "num.partitions": 1}
    with HeadraceServer(settings=settings) as server:
        for number in range(20):
            publish(server, topic, b'{"value": %d}' % number, "application/json", **TRACE)
        assert len(kafka_headers(server, topic, 20)) == 20

        def told(text: str) -> bool:
            return text in ask(server, "GET", "/metrics")[2].decode()

        wait_until(lambda: told("headrace_spans_collector_up 0.0"), timeout_s=20, what="the metric")
        assert "takes no spans" in server.log_text()
        doctor = [sys.executable, "-m", "headrace", "doctor", "--http", server.http, "--json"]
        found = json.loads(subprocess.run(doctor, capture_output=True, check=False, timeout=60).stdout)["findings"]
        assert [(one["severity"], one["what"]) for one in found if one["check"] == "tracing"] == [
            ("warning", "the collector takes no spans")
        ]
        with receiver(port) as late:  # it comes, and gets what waits
            spans = spans_of(late, topic, 20)
            wait_until(lambda: told("headrace_spans_collector_up 1.0"), timeout_s=20, what="the metric")
        assert len({span["spanId"] for span in spans}) == 20


def test_an_address_that_is_none_is_refused_at_start() -> None:
    with pytest.raises(ServerFailed, match=r"headrace\.tracing\.endpoint"):
        HeadraceServer(settings={"headrace.tracing.endpoint": "http://127.1:4318"}).start()
