"""Bridges between exchanges and topics: pika on one side, confluent-kafka on the other, both ways, with crashes in between."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox

from headrace.client.routes import RoutesClient
from headrace.testing import wait_until

pytestmark = pytest.mark.interop

STREAM = {"x-queue-type": "stream"}
WAIT_S = 30.0


@pytest.fixture(autouse=True)
def _only_ours(broker) -> None:
    if broker.outside:
        pytest.skip("RabbitMQ speaks no Kafka")


@pytest.fixture
def kafka(broker) -> str:
    return broker.server.kafka


@pytest.fixture
def routes(broker):
    with RoutesClient(broker.server.http) as client:
        yield client
        for route in client.all():
            client.delete(route.name)


def create_topic(kafka: str, name: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_S)
    return name


def produce(kafka: str, topic: str, records: Iterable[tuple[bytes | None, bytes]], **options: object) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    for key, value in records:
        producer.produce(topic, value, key=key, **options)
    assert producer.flush(WAIT_S) == 0


def read(kafka: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"reader-{uuid.uuid4()}", "auto.offset.reset": "earliest"})
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


def by_key(pairs: Iterable[tuple[str, bytes]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, body in pairs:
        found[key].append(int(body))
    return dict(found)


def caught_up(routes: RoutesClient, name: str) -> None:
    def done() -> bool:
        route = routes.get(name)
        return route.state == "running" and route.lag == 0

    wait_until(done, timeout_s=WAIT_S, what=f"route {name}")


# --- from an exchange to a topic


def test_an_exchange_fills_a_kafka_topic_in_the_order_of_each_routing_key(channel, make_exchange, unique, made, kafka):
    topic = create_topic(kafka, unique("topic"), 4)
    exchange = make_exchange("topic")
    channel.queue_declare(topic, durable=True, arguments=STREAM)
    made.queues.append(topic)
    channel.queue_bind(topic, exchange, "order.#")
    for number in range(200):
        channel.basic_publish(exchange, f"order.{number % 13}", b"%d" % number, BasicProperties(app_id="shop"))
    records = read(kafka, topic, 200)
    assert len({record.partition() for record in records}) > 1
    partitions = defaultdict(set)
    for record in records:
        partitions[record.key()].add(record.partition())
        assert dict(record.headers())["amqp.app-id"] == b"shop"
        assert dict(record.headers())["amqp.exchange"] == exchange.encode()
    assert all(len(where) == 1 for where in partitions.values())
    found = by_key((record.key().decode(), record.value()) for record in records)
    assert found == {f"order.{key}": list(range(key, 200, 13)) for key in range(13)}


def test_amqp_and_kafka_put_a_key_into_the_same_partition(channel, make_exchange, unique, made, kafka):
    topic = create_topic(kafka, unique("topic"), 6)
    exchange = make_exchange("fanout")
    channel.queue_declare(topic, durable=True, arguments=STREAM)
    made.queues.append(topic)
    channel.queue_bind(topic, exchange)
    keys = [f"customer-{number}" for number in range(30)]
    for key in keys:
        channel.basic_publish(exchange, key, b"amqp")
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, b"kafka", key=key)
    assert producer.flush(WAIT_S) == 0
    where = defaultdict(set)
    for record in read(kafka, topic, 60):
        where[record.key()].add(record.partition())
    assert len(where) == 30
    assert all(len(partitions) == 1 for partitions in where.values())


# --- from a topic to an exchange


def test_a_topic_feeds_an_exchange_with_every_property(channel, make_exchange, make_queue, unique, kafka, routes):
    topic = create_topic(kafka, unique("topic"))
    exchange, queue = make_exchange("topic"), make_queue()
    channel.queue_bind(queue, exchange, "order.*")
    headers = [("trace", b"abc"), ("raw", b"\xff"), ("amqp.content-type", b"application/json"), ("amqp.priority", b"3")]
    produce(kafka, topic, [(b"order.new", b'{"id": 7}')], headers=headers, timestamp=1_700_000_000_123)
    routes.put(unique("route"), topic=topic, destination={"type": "exchange", "exchange": exchange})
    (delivery,) = Inbox(channel, queue).wait(1)
    assert (delivery.method.exchange, delivery.method.routing_key, delivery.body) == (exchange, "order.new", b'{"id": 7}')
    properties = delivery.properties
    assert (properties.content_type, properties.priority, properties.delivery_mode) == ("application/json", 3, 2)
    assert properties.timestamp == 1_700_000_000
    assert properties.headers["trace"] == "abc"
    assert properties.headers["raw"] == b"\xff"
    assert properties.headers["timestamp_in_ms"] == 1_700_000_000_123


def test_a_message_goes_through_a_topic_and_comes_out_of_another_exchange_the_same(
    channel, make_exchange, make_queue, unique, made, kafka, routes
):
    topic = create_topic(kafka, unique("topic"), 3)
    source, target, queue = make_exchange("topic"), make_exchange("topic"), make_queue()
    channel.queue_declare(topic, durable=True, arguments=STREAM)
    made.queues.append(topic)
    channel.queue_bind(topic, source, "#")
    channel.queue_bind(queue, target, "#")
    routes.put(unique("route"), topic=topic, destination={"type": "exchange", "exchange": target})
    sent = BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"n": 1, "big": 1 << 40, "t": True, "l": [1, "a"], "d": {"x": None}, "b": b"\xff"},
        delivery_mode=2,
        priority=4,
        correlation_id="c",
        reply_to="replies",
        expiration="60000",
        message_id="m",
        timestamp=1_600_000_000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    channel.basic_publish(source, "order.new", b"body", sent)
    (delivery,) = Inbox(channel, queue).wait(1)
    assert (delivery.method.routing_key, delivery.body) == ("order.new", b"body")
    assert delivery.properties == sent


def test_a_topic_of_many_partitions_feeds_an_exchange_in_the_order_of_each_key(
    channel, make_exchange, make_queue, unique, kafka, routes
):
    topic = create_topic(kafka, unique("topic"), 8)
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    routes.put(unique("route"), topic=topic, destination={"type": "exchange", "exchange": exchange})
    produce(kafka, topic, [(b"key-%d" % (number % 17), b"%d" % number) for number in range(2000)])
    deliveries = Inbox(channel, queue).wait(2000)
    found = by_key((delivery.method.routing_key, delivery.body) for delivery in deliveries)
    assert found == {f"key-{key}": list(range(key, 2000, 17)) for key in range(17)}


def test_aborted_transactions_never_reach_the_exchange(channel, make_exchange, make_queue, unique, kafka, routes):
    topic = create_topic(kafka, unique("topic"))
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    routes.put(unique("route"), topic=topic, destination={"type": "exchange", "exchange": exchange})
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for number in range(10):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert [delivery.body for delivery in Inbox(channel, queue).wait(5)] == [b"0", b"2", b"4", b"6", b"8"]


def test_what_no_queue_takes_is_read_by_kafka_from_the_dead_letter_topic(
    channel, make_exchange, make_queue, unique, kafka, routes
):
    topic, name = create_topic(kafka, unique("topic")), unique("route")
    exchange, queue = make_exchange("direct"), make_queue()
    channel.queue_bind(queue, exchange, "good")
    produce(kafka, topic, [(b"good", b"1"), (b"bad", b"2"), (b"good", b"3")])
    routes.put(name, topic=topic, destination={"type": "exchange", "exchange": exchange})
    assert [delivery.body for delivery in Inbox(channel, queue).wait(2)] == [b"1", b"3"]
    (dead,) = read(kafka, f"{name}.dead-letters", 1)
    assert (dead.key(), dead.value()) == (b"bad", b"2")
    headers = dict(dead.headers())
    assert (headers["__dlq.errors.topic"], headers["__dlq.errors.offset"]) == (topic.encode(), b"1")
    assert b"NO_ROUTE" in headers["__dlq.errors.message"]


def test_the_position_is_that_of_a_group_and_may_be_moved_by_kafka_while_the_route_is_paused(
    channel, make_exchange, make_queue, unique, kafka, routes
):
    topic, name = create_topic(kafka, unique("topic")), unique("route")
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    produce(kafka, topic, [(b"k", b"%d" % number) for number in range(5)])
    routes.put(name, topic=topic, destination={"type": "exchange", "exchange": exchange})
    inbox = Inbox(channel, queue)
    inbox.wait(5)
    caught_up(routes, name)
    admin = AdminClient({"bootstrap.servers": kafka})
    group = f"headrace.route.{name}"
    (committed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result().topic_partitions
    assert (committed.topic, committed.offset) == (topic, 5)
    routes.pause(name)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([moved])[group].result()
    routes.resume(name)
    assert [delivery.body for delivery in inbox.wait(7)][5:] == [b"3", b"4"]


# --- crashes


def test_nothing_is_lost_on_the_way_round_when_the_server_is_killed(own_broker):
    """pika → exchange → topic of four partitions → route → exchange → queue → pika, and kill -9 in between, twice."""
    server = own_broker.server
    connection = own_broker.connect()
    channel = connection.channel()
    create_topic(server.kafka, "middle", 4)
    channel.exchange_declare("in", "topic", durable=True)
    channel.exchange_declare("out", "topic", durable=True)
    channel.queue_declare("middle", durable=True, arguments=STREAM)
    channel.queue_bind("middle", "in", "#")
    channel.queue_declare("end", durable=True)
    channel.queue_bind("end", "out", "#")
    with RoutesClient(server.http) as routes:
        routes.put("round", topic="middle", destination={"type": "exchange", "exchange": "out"})
    sent = 0
    for _ in range(2):
        connection = own_broker.connect()
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(sent, sent + 150):
            channel.basic_publish("in", f"key-{number % 7}", b"%d" % number, BasicProperties(delivery_mode=2))
        sent += 150
        own_broker.restart(crash=True)
    with RoutesClient(server.http) as routes:
        caught_up(routes, "round")
        assert routes.get("round").json["dead_lettered"] == 0
    channel = own_broker.connect().channel()
    count = channel.queue_declare("end", passive=True).method.message_count
    deliveries = Inbox(channel, "end").wait(count)
    found = by_key((delivery.method.routing_key, delivery.body) for delivery in deliveries)
    for key in range(7):
        first_times = list(dict.fromkeys(found[f"key-{key}"]))  # what was delivered last before a crash comes again
        assert first_times == list(range(key, sent, 7))
