"""pika: queues with limits. Time to live, length by count and by bytes with each way to overflow, priorities."""

from __future__ import annotations

import pika
import pytest
from pika.spec import BasicProperties
from tests.interop.amqp.inbox import Inbox, count, drain, get, publish, wait_for_count

pytestmark = pytest.mark.interop


def test_a_queue_s_time_to_live_ends_every_message(channel, make_queue):
    queue = make_queue(**{"x-message-ttl": 200})
    publish(channel, queue, [b"1", b"2"])
    wait_for_count(channel, queue, 0)


def test_a_message_s_own_time_to_live_ends_it(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [b"short"], expiration="150")
    publish(channel, queue, [b"long"], expiration="600000")
    publish(channel, queue, [b"ever"])
    wait_for_count(channel, queue, 2)
    left = get(channel, queue)
    assert (left.body, left.properties.expiration) == (b"long", "600000")
    assert drain(channel, queue) == [b"ever"]


def test_the_shorter_time_to_live_counts(channel, make_queue):
    queue = make_queue(**{"x-message-ttl": 150})
    publish(channel, queue, [b"x"], expiration="600000")
    wait_for_count(channel, queue, 0)
    queue = make_queue(**{"x-message-ttl": 600_000})
    publish(channel, queue, [b"x"], expiration="150")
    wait_for_count(channel, queue, 0)


@pytest.mark.parametrize("queue_s", [True, False])
def test_a_time_to_live_of_zero_is_for_a_waiting_consumer_only(queue_s, channel, make_queue):
    queue = make_queue(**({"x-message-ttl": 0} if queue_s else {}))
    expiry = {} if queue_s else {"expiration": "0"}
    publish(channel, queue, [b"nobody waits"], **expiry)
    assert count(channel, queue) == 0
    inbox = Inbox(channel, queue, no_ack=True)
    publish(channel, queue, [b"somebody waits"], **expiry)
    assert inbox.wait(1)[0].body == b"somebody waits"


def test_an_unacked_message_does_not_expire_until_it_is_requeued(channel, make_queue):
    queue, clock = make_queue(**{"x-message-ttl": 1000}), make_queue(**{"x-message-ttl": 1100})
    publish(channel, queue, [b"held"])
    delivery = get(channel, queue, auto_ack=False)
    publish(channel, clock, [b"x"])
    wait_for_count(channel, clock, 0)  # now the time is over
    channel.basic_nack(delivery.tag, requeue=True)
    wait_for_count(channel, queue, 0)
    assert get(channel, queue) is None


def test_a_long_lived_message_does_not_let_a_short_lived_one_be_delivered_late(channel, make_queue):
    """An expired message may sit behind a live one, but no consumer ever sees it."""
    queue, clock = make_queue(), make_queue()
    publish(channel, queue, [b"long"], expiration="600000")
    publish(channel, queue, [b"short"], expiration="100")
    publish(channel, queue, [b"ever"])
    publish(channel, clock, [b"x"], expiration="250")
    wait_for_count(channel, clock, 0)
    inbox = Inbox(channel, queue, no_ack=True)
    inbox.exactly(2)
    assert inbox.bodies == [b"long", b"ever"]


def test_a_full_queue_drops_its_oldest(channel, make_queue):
    queue = make_queue(**{"x-max-length": 3})
    publish(channel, queue, [b"1", b"2", b"3", b"4", b"5"])
    wait_for_count(channel, queue, 3)
    assert drain(channel, queue) == [b"3", b"4", b"5"]


def test_unacked_messages_do_not_count_towards_the_length(channel, make_queue):
    queue = make_queue(**{"x-max-length": 2})
    publish(channel, queue, [b"1", b"2"])
    taken = [get(channel, queue, auto_ack=False) for _ in range(2)]
    publish(channel, queue, [b"3", b"4"])
    wait_for_count(channel, queue, 2)
    channel.basic_nack(taken[1].tag, multiple=True, requeue=True)
    wait_for_count(channel, queue, 2)
    assert drain(channel, queue) == [b"3", b"4"]  # the requeued ones are the oldest


def test_a_queue_too_large_in_bytes_drops_its_oldest(channel, make_queue):
    queue = make_queue(**{"x-max-length-bytes": 1000})
    publish(channel, queue, [letter * 400 for letter in "abc"])
    wait_for_count(channel, queue, 2)
    assert drain(channel, queue) == [b"b" * 400, b"c" * 400]
    publish(channel, queue, [b"x" * 1001])  # does not fit alone
    wait_for_count(channel, queue, 0)


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_can_refuse_instead(overflow, channel, make_queue):
    queue = make_queue(**{"x-max-length": 2, "x-overflow": overflow})
    publish(channel, queue, [b"1", b"2"])
    for _ in range(2):
        with pytest.raises(pika.exceptions.NackError):
            publish(channel, queue, [b"refused"])
    assert get(channel, queue).body == b"1"
    publish(channel, queue, [b"3"])
    assert drain(channel, queue) == [b"2", b"3"]


def test_reject_publish_dlx_dead_letters_what_it_refuses(channel, make_queue):
    dead = make_queue()
    arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    kept, given = [make_queue(**arguments, **{"x-overflow": way}) for way in ("reject-publish", "reject-publish-dlx")]
    for queue in (kept, given):
        publish(channel, queue, [b"first"])
        with pytest.raises(pika.exceptions.NackError):
            publish(channel, queue, [queue])
    wait_for_count(channel, dead, 1)
    delivery = get(channel, dead)
    assert delivery.body == given.encode()
    assert delivery.properties.headers["x-death"][0]["reason"] == "maxlen"


def test_one_refusing_queue_makes_a_nack_but_the_others_keep_the_message(channel, make_queue, make_exchange):
    exchange, full, free = (
        make_exchange("fanout"),
        make_queue(**{"x-max-length": 0, "x-overflow": "reject-publish"}),
        make_queue(),
    )
    for queue in (full, free):
        channel.queue_bind(queue, exchange)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish(exchange, "", b"x")
    assert drain(channel, free) == [b"x"]
    assert drain(channel, full) == []


def test_priorities_are_strict_and_keep_order_among_equals(channel, make_queue):
    queue = make_queue(**{"x-max-priority": 9})
    for number, priority in enumerate([0, 5, 9, None, 5, 200, 1, 9]):
        channel.basic_publish("", queue, str(number), BasicProperties(priority=priority))
    assert drain(channel, queue) == [b"2", b"5", b"7", b"1", b"4", b"6", b"0", b"3"]


def test_a_requeued_message_returns_to_its_place_among_its_priority(channel, make_queue):
    queue = make_queue(**{"x-max-priority": 3})
    for number, priority in enumerate([1, 1, 3, 2]):
        channel.basic_publish("", queue, str(number), BasicProperties(priority=priority))
    taken = [get(channel, queue, auto_ack=False) for _ in range(3)]
    assert [delivery.body for delivery in taken] == [b"2", b"3", b"0"]
    channel.basic_publish("", queue, b"new", BasicProperties(priority=2))
    for delivery in taken:
        channel.basic_reject(delivery.tag, requeue=True)
    wait_for_count(channel, queue, 5)
    assert drain(channel, queue) == [b"2", b"3", b"new", b"0", b"1"]


def test_a_full_priority_queue_drops_from_its_head_the_highest(channel, make_queue):
    queue = make_queue(**{"x-max-priority": 5, "x-max-length": 3})
    for number, priority in enumerate([5, 1, 3, 1, 5]):
        channel.basic_publish("", queue, str(number), BasicProperties(priority=priority))
    wait_for_count(channel, queue, 3)
    assert drain(channel, queue) == [b"2", b"1", b"3"]  # surprising, documented, and so in every RabbitMQ


def test_a_waiting_consumer_is_given_the_highest_first(channel, make_queue):
    queue = make_queue(**{"x-max-priority": 31})
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    channel.basic_publish("", queue, b"holds the consumer")
    inbox.wait(1)
    for priority in (3, 30, 17, 31, 0):
        channel.basic_publish("", queue, str(priority), BasicProperties(priority=priority))
    for number in range(6):
        channel.basic_ack(inbox.wait(number + 1)[number].tag)
    assert inbox.bodies[1:] == [b"31", b"30", b"17", b"3", b"0"]


def test_an_expired_message_behind_a_higher_priority_is_never_delivered(channel, make_queue):
    queue, clock = make_queue(**{"x-max-priority": 2}), make_queue()
    channel.basic_publish("", queue, b"low", BasicProperties(priority=0, expiration="100"))
    channel.basic_publish("", queue, b"high", BasicProperties(priority=2))
    publish(channel, clock, [b"x"], expiration="200")
    wait_for_count(channel, clock, 0)
    assert drain(channel, queue) == [b"high"]
