"""pika: delayed messages, retries that wait, consumers that take too long.

RabbitMQ 3.10 has none of these by itself: the first needs a plugin, the others a newer version. So only our server is asked.
"""

from __future__ import annotations

import time

import pytest
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox, get, get_when_there, publish, pump

pytestmark = pytest.mark.interop

LATER = {"delivery_mode": 2}


@pytest.fixture(autouse=True)
def only_ours(broker):
    if broker.outside:
        pytest.skip("RabbitMQ 3.10 has no delays of its own")


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_a_delayed_exchange_routes_by_the_type_it_names_when_the_time_has_come(kind, channel, make_queue, make_exchange):
    exchange = make_exchange("x-delayed-message", **{"x-delayed-type": kind})
    queue, other = make_queue(), make_queue()
    channel.queue_bind(queue, exchange, "a.b", {"x-match": "any", "kind": "good"})
    channel.queue_bind(other, exchange, "c", {"x-match": "any", "kind": "bad"})
    sent_at = time.time()
    channel.basic_publish(exchange, "a.b", b"x", BasicProperties(**LATER, headers={"x-delay": 300, "kind": "good"}))
    delivery = get_when_there(channel, queue)
    assert time.time() - sent_at >= 0.3  # never early; how late is for the machine to say
    assert (delivery.body, delivery.method.exchange, delivery.method.routing_key) == (b"x", exchange, "a.b")
    assert delivery.properties.headers["x-delay"] == -300
    assert (get(channel, other) is None) == (kind != "fanout")


def test_a_later_binding_counts_when_the_time_has_come(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("x-delayed-message", **{"x-delayed-type": "fanout"}), make_queue()
    channel.basic_publish(exchange, "", b"x", BasicProperties(headers={"x-delay": 200}))
    channel.queue_bind(queue, exchange)
    assert get_when_there(channel, queue).body == b"x"


@pytest.mark.parametrize("delay", [0, -5, "300", 1.5, None])
def test_what_is_no_delay_is_none(delay, channel, make_queue, make_exchange):
    exchange, queue = make_exchange("x-delayed-message", **{"x-delayed-type": "fanout"}), make_queue()
    channel.queue_bind(queue, exchange)
    headers = {"x-delay": delay} if not isinstance(delay, float) else {"other": 1}
    channel.basic_publish(exchange, "", b"x", BasicProperties(headers=headers))
    assert get_when_there(channel, queue).body == b"x"


def test_delayed_messages_wait_through_a_crash(own_broker, unique):
    exchange, queue = unique("delayed"), unique("queue")
    channel = own_broker.connect().channel()
    channel.confirm_delivery()
    channel.exchange_declare(exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, "k")
    for delay, body in ((2500, b"second"), (1500, b"first"), (600_000, b"never")):
        channel.basic_publish(exchange, "k", body, BasicProperties(**LATER, headers={"x-delay": delay}))
    own_broker.restart(crash=True)
    channel = own_broker.connect().channel()
    inbox = Inbox(channel, queue, no_ack=True)
    inbox.wait(2)
    assert inbox.bodies == [b"first", b"second"]


def test_a_failed_message_rests_longer_each_time_while_others_go_on(channel, make_queue):
    queue = make_queue(**{"x-delayed-retry-type": "failed", "x-delayed-retry-min": 150, "x-delayed-retry-max": 300})
    publish(channel, queue, [b"fails", b"fine"])
    rests = []
    inbox = Inbox(channel, queue)
    assert inbox.wait(2)[1].body == b"fine"
    channel.basic_ack(inbox.deliveries[1].tag)
    for attempt in range(3):
        channel.basic_nack(inbox.deliveries[-1 if attempt else 0].tag, requeue=True)
        began = time.monotonic()
        inbox.wait(3 + attempt)
        rests.append(time.monotonic() - began)
        assert inbox.deliveries[-1].body == b"fails"
        assert inbox.deliveries[-1].method.redelivered
    assert all(rest >= least for rest, least in zip(rests, (0.14, 0.29, 0.29), strict=True)), rests


def test_a_consumer_that_takes_too_long_loses_its_channel_and_its_message(connection, channel, make_queue):
    queue = make_queue(**{"x-consumer-timeout": 200})
    publish(channel, queue, [b"x"])
    slow = connection.channel()
    Inbox(slow, queue).wait(1)
    timed_out = f"delivery acknowledgement on channel {slow.channel_number} timed out. Timeout value used: 200 ms. "
    advice = "This timeout value can be configured, see consumers doc guide to learn more"
    pump(connection, lambda: slow.is_closed, "the close", 90)
    reason = slow._impl._closing_reason
    assert (reason.reply_code, reason.reply_text) == (406, f"PRECONDITION_FAILED - {timed_out}{advice}")
    assert get_when_there(channel, queue).method.redelivered
