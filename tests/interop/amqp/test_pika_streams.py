"""pika: stream queues. Reading does not consume; every consumer says where it starts."""

from __future__ import annotations

import datetime
import time

import pytest
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox, closes, publish, pump, wait_for_count

pytestmark = pytest.mark.interop

STREAM = {"x-queue-type": "stream"}


def numbers(count):
    return [str(number).encode() for number in range(count)]


@pytest.fixture
def stream(channel, make_queue):
    name = make_queue("stream", **STREAM)
    publish(channel, name, numbers(10))
    return name


@pytest.fixture
def read(connect):
    """Reads a stream on a connection of its own: `read(stream, "first")`."""

    def read(stream, offset=None, prefetch=50):
        channel = connect().channel()
        channel.basic_qos(prefetch_count=prefetch)
        return Inbox(channel, stream, arguments={} if offset is None else {"x-stream-offset": offset})

    return read


def test_every_reader_gets_everything_from_the_first(stream, read):
    for _ in range(2):
        inbox = read(stream, "first")
        inbox.wait(10)
        assert inbox.bodies == numbers(10)
        assert [d.properties.headers["x-stream-offset"] for d in inbox.deliveries] == list(range(10))


def test_a_reader_starts_at_an_offset(stream, read):
    inbox = read(stream, 7)
    inbox.wait(3)
    assert inbox.bodies == numbers(10)[7:]


@pytest.mark.parametrize("offset", ["next", None])
def test_a_reader_of_what_is_next_gets_only_that(offset, channel, stream, read):
    inbox = read(stream, offset)
    publish(channel, stream, [b"new"])
    assert inbox.wait(1)[0].body == b"new"
    assert inbox.deliveries[0].properties.headers["x-stream-offset"] == 10


def test_a_reader_of_the_last_starts_with_the_last_chunk(stream, read):
    inbox = read(stream, "last")
    inbox.wait(1)
    assert inbox.bodies == numbers(10)[-len(inbox.bodies) :]
    assert inbox.bodies[-1] == b"9"


def test_a_reader_starts_at_a_time(stream, read):
    past, future = (datetime.datetime.fromtimestamp(time.time() + shift, datetime.UTC) for shift in (-3600, 3600))
    inbox = read(stream, past)
    inbox.wait(10)
    assert inbox.bodies == numbers(10)
    assert read(stream, future).deliveries == []


@pytest.mark.parametrize("interval", ["1h", "2D", "5m"])
def test_a_reader_starts_an_interval_ago(interval, stream, read):
    inbox = read(stream, interval)
    inbox.wait(10)
    assert inbox.bodies == numbers(10)


def test_acks_are_credit_for_more_and_nothing_else(stream, read):
    inbox = read(stream, "first", prefetch=3)
    inbox.wait(3)
    for number in range(10):
        inbox.channel.basic_ack(inbox.wait(number + 1)[number].tag)
    assert inbox.bodies == numbers(10)
    again = read(stream, "first")
    again.wait(10)


def test_properties_and_headers_of_a_stream_message_arrive(broker, channel, stream, read):
    given = BasicProperties(
        content_type="application/json",
        delivery_mode=2,
        headers={"a": 1, "b": "x"} | ({} if broker.outside else {"c": [1, 2]}),  # RabbitMQ 3.10 loses arrays and tables here
        correlation_id="c",
        message_id="m",
        priority=3,
        timestamp=1_700_000_000,
        type="t",
        app_id="a",
    )
    channel.basic_publish("", stream, b'{"json": true}', given)
    (delivery,) = read(stream, 10).wait(1)
    assert delivery.properties.headers.pop("x-stream-offset") == 10
    assert (delivery.body, delivery.method.routing_key, delivery.method.exchange) == (b'{"json": true}', stream, "")
    assert delivery.properties == given


def test_a_stream_is_fed_through_exchanges_and_counts_its_messages(channel, make_queue, make_exchange, read):
    exchange, stream = make_exchange("topic"), make_queue("stream", **STREAM)
    channel.queue_bind(stream, exchange, "a.#")
    for key in ("a.1", "b", "a.2"):
        channel.basic_publish(exchange, key, key)
    inbox = read(stream, "first")
    inbox.wait(2)
    assert [(d.method.exchange, d.method.routing_key) for d in inbox.deliveries] == [(exchange, "a.1"), (exchange, "a.2")]
    wait_for_count(channel, stream, 2)


def test_a_reader_that_was_cancelled_gets_no_more(channel, stream, read):
    inbox, other = read(stream, "first"), read(stream, "first")
    inbox.wait(10)
    inbox.cancel()
    publish(channel, stream, [b"later"])
    other.wait(11)
    pump(inbox.channel.connection, lambda: True, "nothing")
    assert len(inbox.deliveries) == 10


@pytest.mark.parametrize(
    ("use", "code", "text"),
    [
        ("get", 540, "NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{}' in vhost '/'"),
        ("no-ack", 540, "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue '{}' in vhost '/'"),
        ("no-qos", 406, "PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{}' in vhost '/''"),
        ("purge", 540, "NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{}' in vhost '/'"),
        ("bad-offset", 406, None),  # 3.10 falls over this with a 541; later ones refuse it
    ],
)
def test_wrong_uses_of_a_stream(use, code, text, broker, stream, connect):
    if use == "bad-offset" and broker.outside:
        code = 541
    channel = connect().channel()
    if use != "no-qos":
        channel.basic_qos(prefetch_count=10)
    with closes(code, None if text is None else text.format(stream)):
        if use == "get":
            channel.basic_get(stream)
        elif use == "no-ack":
            Inbox(channel, stream, no_ack=True)
        elif use == "purge":
            channel.queue_purge(stream)
        elif use == "bad-offset":
            Inbox(channel, stream, arguments={"x-stream-offset": "yesterday"})
        else:
            Inbox(channel, stream)


@pytest.mark.parametrize("flags", [{"durable": False}, {"exclusive": True}, {"auto_delete": True}])
def test_a_stream_is_durable_and_for_all(flags, connection, unique):
    name = unique("stream")
    what = {"durable": "non-durable", "exclusive": "exclusive-owner", "auto_delete": "auto-delete"}[next(iter(flags))]
    with closes(406, f"PRECONDITION_FAILED - invalid property '{what}' for queue '{name}' in vhost '/'"):
        connection.channel().queue_declare(name, **{"durable": True, **flags}, arguments=STREAM)
