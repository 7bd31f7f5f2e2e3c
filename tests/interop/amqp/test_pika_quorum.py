"""pika: quorum queues. The same promises from one machine: delivery limit, at-least-once dead letters, no transient parts.

Since 4.0 a quorum queue has a delivery limit of 20 unless it is told otherwise; 3.10 has none. No test here comes near it.
"""

from __future__ import annotations

import pytest
from tests.interop.amqp.inbox import Inbox, closes, drain, get, get_when_there, publish, wait_for_count

pytestmark = pytest.mark.interop

QUORUM = {"x-queue-type": "quorum"}


def test_a_quorum_queue_keeps_order_and_settles_like_any(channel, make_queue):
    queue = make_queue(**QUORUM)
    publish(channel, queue, [str(number) for number in range(20)])
    inbox = Inbox(channel, queue)
    inbox.wait(20)
    assert inbox.bodies == [str(number).encode() for number in range(20)]
    channel.basic_ack(inbox.deliveries[9].tag, multiple=True)
    channel.basic_nack(inbox.deliveries[19].tag, multiple=True, requeue=False)
    inbox.cancel()
    wait_for_count(channel, queue, 0)


def test_each_return_is_counted_in_a_header(channel, make_queue):
    queue = make_queue(**QUORUM)
    publish(channel, queue, [b"x"])
    for attempt in range(3):
        delivery = get_when_there(channel, queue, auto_ack=False)
        headers = delivery.properties.headers or {}
        assert headers.get("x-delivery-count", 0) == attempt
        assert delivery.method.redelivered == (attempt > 0)
        channel.basic_nack(delivery.tag, requeue=True)


def test_at_the_delivery_limit_a_message_is_dead_lettered(channel, make_queue):
    dead = make_queue("dead")
    queue = make_queue(**QUORUM, **{"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    publish(channel, queue, [b"poison"])
    for _ in range(3):
        channel.basic_nack(get_when_there(channel, queue, auto_ack=False).tag, requeue=True)
    letter = get_when_there(channel, dead)
    (death,) = letter.properties.headers["x-death"]
    assert (letter.body, death["reason"], death["queue"], death["count"]) == (b"poison", "delivery_limit", queue, 1)
    assert get(channel, queue) is None


def test_without_dead_lettering_the_delivery_limit_drops(channel, make_queue):
    queue = make_queue(**QUORUM, **{"x-delivery-limit": 1})
    publish(channel, queue, [b"poison", b"fine"])
    for _ in range(2):
        delivery = get_when_there(channel, queue, auto_ack=False)
        assert delivery.body == b"poison"
        channel.basic_nack(delivery.tag, requeue=True)
    assert get_when_there(channel, queue).body == b"fine"


def test_at_least_once_dead_lettering_waits_for_a_queue_to_take_it(channel, make_queue, make_exchange):
    graveyard, dead = make_exchange("direct"), make_queue()
    queue = make_queue(
        **QUORUM,
        **{
            "x-dead-letter-exchange": graveyard,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-dead-letter-routing-key": "k",
        },
    )
    channel.queue_bind(dead, graveyard, "k")
    publish(channel, queue, [b"1", b"2"])
    for _ in range(2):
        channel.basic_reject(get_when_there(channel, queue, auto_ack=False).tag, requeue=False)
    wait_for_count(channel, dead, 2)
    assert drain(channel, dead) == [b"1", b"2"]


def test_length_and_time_to_live_hold_for_quorum_queues_too(channel, make_queue):
    short, mortal = make_queue(**QUORUM, **{"x-max-length": 2}), make_queue(**QUORUM, **{"x-message-ttl": 100})
    publish(channel, short, [b"1", b"2", b"3"])
    publish(channel, mortal, [b"x"])
    wait_for_count(channel, short, 2)
    assert drain(channel, short) == [b"2", b"3"]
    wait_for_count(channel, mortal, 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": False}, "PRECONDITION_FAILED - invalid property 'non-durable' for queue '{}' in vhost '/'"),
        ({"exclusive": True}, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue '{}' in vhost '/'"),
        ({"auto_delete": True}, "PRECONDITION_FAILED - invalid property 'auto-delete' for queue '{}' in vhost '/'"),
        (
            {"x-max-priority": 5},
            "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{}' in vhost '/' of queue type rabbit_quorum_queue",
        ),
    ],
)
def test_what_a_quorum_queue_can_t_be(options, text, connection, unique):
    name = unique("quorum")
    flags = {"durable": True} | {key: value for key, value in options.items() if not key.startswith("x-")}
    arguments = QUORUM | {key: value for key, value in options.items() if key.startswith("x-")}
    with closes(406, text.format(name)):
        connection.channel().queue_declare(name, **flags, arguments=arguments)
