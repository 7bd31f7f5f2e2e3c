"""kombu on py-amqp: what Celery stands on, used by itself."""

from __future__ import annotations

import contextlib
import socket
import time

import kombu
import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import eventloop
from kombu.pools import producers
from kombu.simple import SimpleQueue

import amqp

pytestmark = pytest.mark.interop


@pytest.fixture
def connection(broker):
    with Connection(broker.url, transport_options={"confirm_publish": True}, connect_timeout=20) as connection:
        yield connection


def take(connection: Connection, consumer: Consumer, count: int) -> list[kombu.Message]:
    messages: list[kombu.Message] = []
    consumer.register_callback(lambda body, message: messages.append(message))
    with consumer:
        for _ in eventloop(connection, timeout=20, ignore_timeouts=False):
            if len(messages) >= count:
                return messages
    raise AssertionError(f"{len(messages)} messages, not {count}")


@pytest.mark.parametrize("serializer", ["json", "pickle", "raw"])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_serialized_and_compressed_bodies_arrive(serializer, compression, connection, unique):
    body = b"raw bytes" if serializer == "raw" else {"a": [1, 2, "drei"], "long": "x" * 5000}
    queue = Queue(unique("simple"), Exchange(""), auto_delete=True)(connection.channel())
    queue.declare()
    Producer(connection.channel(), serializer=serializer, compression=compression).publish(body, routing_key=queue.name)
    message = queue.get(accept=["json", "pickle", "application/data"])
    assert (message.payload, message.headers.get("compression")) == (body, compression and "application/x-gzip")
    message.ack()
    queue.delete()


def test_a_simple_queue_is_a_queue(connection, unique):
    with SimpleQueue(connection, unique("simple")) as queue:
        for number in range(5):
            queue.put({"number": number})
        for number in range(5):
            message = queue.get(timeout=20)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get_nowait()
    queue.queue(connection.channel()).delete()


def test_entities_are_declared_bound_and_published_to(connection, unique):
    exchange = Exchange(unique("tasks"), "topic", auto_delete=True)
    queues = [
        Queue(unique("a"), exchange, routing_key="a.#", max_priority=5, expires=60, message_ttl=60, max_length=100),
        Queue(unique("b"), exchange, routing_key="*.b", auto_delete=True),
    ]
    channel = connection.channel()
    with producers[connection].acquire(block=True) as producer:
        for number, key in enumerate(("a.x", "a.b", "c.b", "c.d")):
            producer.publish({"key": key}, exchange=exchange, routing_key=key, declare=[exchange, *queues], priority=number)
    both = take(connection, Consumer(channel, queues, accept=["json"]), 4)
    assert sorted(message.delivery_info["routing_key"] for message in both) == ["a.b", "a.b", "a.x", "c.b"]
    for message in both:
        message.ack()
    for queue in queues:
        queue(channel).delete()


def test_a_publisher_waits_for_the_confirm_and_sees_returns(connection, unique):
    producer = Producer(connection.channel())
    with pytest.raises(amqp.exceptions.ChannelError, match="NO_ROUTE"):
        producer.publish("x", exchange="", routing_key=unique("nowhere"), mandatory=True)
    producer = Producer(connection.channel())
    with pytest.raises(amqp.exceptions.NotFound, match="no exchange 'no-such-exchange' in vhost '/'"):
        producer.publish("x", exchange="no-such-exchange", routing_key="")


def test_rejected_and_requeued_messages_come_back(connection, unique):
    queue = Queue(unique("requeue"), Exchange(""), auto_delete=True)
    channel = connection.channel()
    bound = queue(channel)
    bound.declare()
    Producer(channel).publish({"n": 1}, routing_key=bound.name, exchange="")
    first = bound.get()
    assert not first.delivery_info["redelivered"]
    first.requeue()
    second = bound.get()
    assert second.delivery_info["redelivered"]
    second.reject()
    assert bound.get() is None
    bound.delete()


def test_a_lost_connection_is_made_anew_by_ensure(broker, unique):
    with Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        name = unique("ensure")
        queue = Queue(name, Exchange(""), routing_key=name)
        producer = Producer(connection.default_channel)
        publish = connection.ensure(producer, producer.publish, max_retries=5, interval_start=0.05)
        publish("one", exchange="", routing_key=name, declare=[queue])
        connection.connection.transport.sock.shutdown(socket.SHUT_RDWR)
        publish("two", exchange="", routing_key=name, declare=[queue])
        bound = queue(connection.channel())
        bodies = [bound.get(no_ack=True).decode() for _ in range(2)]
        assert bodies == ["one", "two"]
        bound.delete()


def test_heartbeats_are_exchanged(broker):
    with Connection(broker.url, heartbeat=1) as connection:
        connection.ensure_connection()
        assert connection.get_heartbeat_interval() == 1
        until = time.monotonic() + 3
        while time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.25)
            connection.heartbeat_check()
        assert connection.connection.connected


def test_the_server_s_properties_and_a_wrong_password(broker, connection):
    connection.ensure_connection()
    assert connection.connection.server_properties["capabilities"]["consumer_cancel_notify"] is True
    wrong = Connection(broker.url.replace("guest:guest@", "guest:wrong@"))
    with pytest.raises(amqp.exceptions.AccessRefused, match="ACCESS_REFUSED - Login was refused"):
        wrong.connect()


def test_the_plain_and_the_older_login_both_work(broker):
    for method in ("PLAIN", "AMQPLAIN"):
        with Connection(broker.url, login_method=method) as connection:
            connection.connect()
            assert connection.connected
