"""One stream, two protocols: pika and confluent-kafka write and read the same topic at the same time."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox, publish

pytestmark = pytest.mark.interop

STREAM = {"x-queue-type": "stream"}
WAIT_S = 30.0


@pytest.fixture
def kafka(broker) -> str:
    if broker.outside:
        pytest.skip("RabbitMQ speaks no Kafka")
    return broker.server.kafka


@pytest.fixture
def read_kafka(kafka) -> Callable[..., list[Message]]:
    """Reads so many records of a topic from its beginning."""

    def read(topic: str, count: int, isolation: str = "read_committed") -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": f"reader-{uuid.uuid4()}",
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
            }
        )
        consumer.subscribe([topic])
        found: list[Message] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records"
                record = consumer.poll(0.2)
                if record is not None:
                    assert record.error() is None, record.error()
                    found.append(record)
        finally:
            consumer.close()
        return found

    return read


def reader(connect, stream: str, offset: object = "first", **arguments: object) -> Inbox:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=1000)
    return Inbox(channel, stream, arguments={"x-stream-offset": offset, **arguments})


def produce(kafka: str, topic: str, values: list[bytes], **options: object) -> None:
    producer = Producer({"bootstrap.servers": kafka, **options.pop("config", {})})  # type: ignore[dict-item]
    for value in values:
        producer.produce(topic, value, **options)
    assert producer.flush(WAIT_S) == 0


def test_what_amqp_publishes_is_read_by_kafka_with_its_properties(channel, make_queue, make_exchange, read_kafka):
    exchange, stream = make_exchange("topic"), make_queue("stream", **STREAM)
    channel.queue_bind(stream, exchange, "order.#")
    properties = BasicProperties(
        content_type="application/json",
        delivery_mode=2,
        message_id="m-1",
        timestamp=1_600_000_000,
        headers={"trace": "abc", "attempt": 3, "when": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "tags": ["a", 1]},
    )
    channel.confirm_delivery()
    channel.basic_publish(exchange, "order.new", b'{"id": 7}', properties)
    (record,) = read_kafka(stream, 1)
    assert (record.key(), record.value()) == (b"order.new", b'{"id": 7}')
    assert abs(record.timestamp()[1] / 1000 - time.time()) < 60  # of its arrival
    headers = dict(record.headers())
    types = headers.pop("amqp.types")
    assert headers == {
        "amqp.exchange": exchange.encode(),
        "amqp.content-type": b"application/json",
        "amqp.delivery-mode": b"2",
        "amqp.message-id": b"m-1",
        "amqp.timestamp": b"1600000000",
        "trace": b"abc",
        "attempt": b"3",
        "when": b"1577836800",
        "tags": b'["a",1]',
    }
    assert b'"when":"T"' in types


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_kafka_produces_is_read_by_amqp_with_its_headers(compression, connect, make_queue, kafka):
    stream = make_queue("stream", **STREAM)
    values = [b"%d" % number * 20 for number in range(50)]
    headers = [("trace", b"abc"), ("raw", b"\xff"), ("none", None)]
    produce(
        kafka,
        stream,
        values,
        key=b"some key",
        headers=headers,
        timestamp=1_700_000_000_123,
        config={"compression.type": compression},
    )
    deliveries = reader(connect, stream).wait(50)
    assert [delivery.body for delivery in deliveries] == values
    first = deliveries[0]
    assert (first.method.exchange, first.method.routing_key) == ("", "some key")
    assert first.properties.timestamp == 1_700_000_000
    assert first.properties.headers == {
        "x-stream-offset": 0,
        "trace": "abc",
        "raw": b"\xff",
        "none": None,
        "timestamp_in_ms": 1_700_000_000_123,
    }
    assert [delivery.properties.headers["x-stream-offset"] for delivery in deliveries] == list(range(50))


def test_both_sides_write_and_read_one_stream_at_the_same_time(channel, connect, make_queue, kafka, read_kafka):
    stream = make_queue("stream", **STREAM)
    inbox = reader(connect, stream)
    for round_number in range(5):
        publish(channel, stream, [b"amqp %d %d" % (round_number, number) for number in range(20)])
        produce(kafka, stream, [b"kafka %d %d" % (round_number, number) for number in range(20)])
    by_amqp = [delivery.body for delivery in inbox.wait(200)]
    by_kafka = [record.value() for record in read_kafka(stream, 200)]
    assert by_amqp == by_kafka  # the same order
    for side in (b"amqp", b"kafka"):
        assert [body for body in by_amqp if body.startswith(side)] == [
            b"%s %d %d" % (side, round_number, number) for round_number in range(5) for number in range(20)
        ]


def test_amqp_readers_see_committed_transactions_only(connect, make_queue, kafka):
    stream = make_queue("stream", **STREAM)
    inbox = reader(connect, stream)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"tx-{stream}"})
    producer.init_transactions(WAIT_S)
    for value, commit in ((b"first", True), (b"given up", False), (b"second", True)):
        producer.begin_transaction()
        producer.produce(stream, value)
        producer.flush(WAIT_S)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    produce(kafka, stream, [b"plain"])
    assert [delivery.body for delivery in inbox.wait(3)] == [b"first", b"second", b"plain"]


def test_a_topic_of_kafka_becomes_a_stream_by_being_declared(channel, connect, kafka, unique, read_kafka):
    topic = unique("topic")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(WAIT_S)
    produce(kafka, topic, [b"before"], key=b"k")
    channel.queue_declare(topic, durable=True, arguments=STREAM)
    inbox = reader(connect, topic)
    publish(channel, topic, [b"%d" % number for number in range(10)])
    assert sorted(delivery.body for delivery in inbox.wait(11)) == sorted([b"before", *(b"%d" % n for n in range(10))])
    assert len({delivery.properties.headers["x-stream-partition"] for delivery in inbox.deliveries}) <= 3
    assert len(read_kafka(topic, 11)) == 11
    channel.queue_delete(topic)
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


def test_a_topic_that_kafka_deletes_cancels_its_amqp_readers(channel, connect, make_queue, kafka):
    stream = make_queue("stream", **STREAM)
    inbox = reader(connect, stream)
    cancelled: list[str] = []
    inbox.channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([stream])[stream].result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while not cancelled:
        assert time.monotonic() < deadline
        inbox.channel.connection.process_data_events(0.1)
    assert cancelled == [inbox.tag]


def test_a_filter_goes_by_the_header_that_either_side_set(channel, connect, make_queue, kafka):
    stream = make_queue("stream", **STREAM)
    for color in ("red", "blue"):
        channel.basic_publish("", stream, color.encode(), BasicProperties(headers={"x-stream-filter-value": color}))
    produce(kafka, stream, [b"red by kafka"], headers=[("x-stream-filter-value", b"red")])
    produce(kafka, stream, [b"unfiltered"])
    assert [d.body for d in reader(connect, stream, **{"x-stream-filter": "red"}).wait(2)] == [b"red", b"red by kafka"]
    both = reader(connect, stream, **{"x-stream-filter": ["blue"], "x-stream-match-unfiltered": True})
    assert [d.body for d in both.wait(2)] == [b"blue", b"unfiltered"]


def test_a_stream_survives_a_crash_of_the_server(own_broker):
    if own_broker.outside:
        pytest.skip("RabbitMQ speaks no Kafka")
    channel = own_broker.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare("stream", durable=True, arguments=STREAM)
    for number in range(20):
        channel.basic_publish("", "stream", b"%d" % number)  # transient: a stream keeps it all the same
    own_broker.restart(crash=True)
    produce(own_broker.server.kafka, "stream", [b"after"])
    inbox = reader(own_broker.connect, "stream")
    assert [d.body for d in inbox.wait(21)] == [*(b"%d" % number for number in range(20)), b"after"]
