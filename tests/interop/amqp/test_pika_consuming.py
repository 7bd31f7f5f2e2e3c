"""pika: consuming. Prefetch, turns between consumers, every way to settle a delivery, and what comes back after a death."""

from __future__ import annotations

import pika
import pytest
from pika.spec import Basic, BasicProperties
from tests.interop.amqp.inbox import (
    Inbox,
    break_off,
    closes,
    count,
    drain,
    get,
    get_when_there,
    publish,
    pump,
    settle,
    wait_for_count,
)

pytestmark = pytest.mark.interop


def numbers(count):
    return [str(number).encode() for number in range(count)]


def test_a_consumer_gets_no_more_than_its_prefetch_until_it_acks(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(5))
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    inbox.exactly(2)
    channel.basic_ack(inbox.deliveries[0].tag)
    inbox.exactly(3)
    channel.basic_ack(inbox.deliveries[2].tag, multiple=True)
    inbox.exactly(5)
    assert inbox.bodies == numbers(5)


def test_prefetch_counts_for_each_consumer_that_comes_after_it(channel, make_queue):
    queues = [make_queue(), make_queue(), make_queue()]
    for queue in queues:
        publish(channel, queue, numbers(5))
    inboxes = []
    for queue, prefetch in zip(queues, (1, 3, 0), strict=True):
        channel.basic_qos(prefetch_count=prefetch)
        inboxes.append(Inbox(channel, queue))
    for inbox, number in zip(inboxes, (1, 3, 5), strict=True):
        inbox.exactly(number)


def test_global_prefetch_counts_for_the_channel(channel, make_queue):
    first, second = make_queue(), make_queue()
    for queue in (first, second):
        publish(channel, queue, numbers(4))
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inboxes = [Inbox(channel, first), Inbox(channel, second)]

    def all_deliveries():
        return sum(len(inbox.deliveries) for inbox in inboxes)

    pump(channel.connection, lambda: all_deliveries() == 3, "three deliveries")
    settle(channel, first, second)
    assert all_deliveries() == 3
    channel.basic_ack(0, multiple=True)  # tag 0: all of them
    pump(channel.connection, lambda: all_deliveries() == 6, "three more")
    settle(channel, first, second)
    assert all_deliveries() == 6


def test_both_prefetches_hold_at_once(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(20))
    channel.basic_qos(prefetch_count=4, global_qos=False)
    channel.basic_qos(prefetch_count=6, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    pump(channel.connection, lambda: len(first.deliveries) + len(second.deliveries) == 6, "six deliveries")
    settle(channel, queue)
    assert len(first.deliveries) + len(second.deliveries) == 6
    assert max(len(first.deliveries), len(second.deliveries)) <= 4


def test_prefetch_does_not_hold_back_a_consumer_that_needs_no_acks(channel, make_queue):
    queue = make_queue()
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue, no_ack=True)
    publish(channel, queue, numbers(10))
    inbox.exactly(10)


def test_a_raised_prefetch_counts_for_new_consumers_only(channel, make_queue):
    queue, other = make_queue(), make_queue()
    for name in (queue, other):
        publish(channel, name, numbers(5))
    channel.basic_qos(prefetch_count=1)
    old = Inbox(channel, queue)
    old.exactly(1)
    channel.basic_qos(prefetch_count=4)
    new = Inbox(channel, other)
    new.exactly(4)
    old.exactly(1)


def test_consumers_take_turns(connect, channel, make_queue):
    queue = make_queue()
    inboxes = []
    for _ in range(3):
        consumer = connect().channel()
        consumer.basic_qos(prefetch_count=100)
        inboxes.append(Inbox(consumer, queue))
    publish(channel, queue, numbers(30))
    for inbox in inboxes:
        inbox.exactly(10)
    bodies = [set(inbox.bodies) for inbox in inboxes]
    assert set.union(*bodies) == set(numbers(30))


def test_a_busy_consumer_is_passed_over(connect, channel, make_queue):
    queue = make_queue()
    busy, quick = connect().channel(), connect().channel()
    for consumer in (busy, quick):
        consumer.basic_qos(prefetch_count=1)
    slow = Inbox(busy, queue)
    publish(channel, queue, [b"keeps it busy"])
    slow.wait(1)
    inbox = Inbox(quick, queue)
    publish(channel, queue, numbers(5))
    for number in range(5):
        quick.basic_ack(inbox.wait(number + 1)[number].tag)
    assert inbox.bodies == numbers(5)
    slow.exactly(1)


def test_an_acked_message_is_gone_and_another_is_not(connect, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(4))
    connection = connect()
    consumer = connection.channel()
    inbox = Inbox(consumer, queue)
    inbox.wait(4)
    consumer.basic_ack(inbox.deliveries[1].tag)
    consumer.basic_ack(inbox.deliveries[3].tag)
    connection.close()
    wait_for_count(channel, queue, 2)
    left = [get(channel, queue) for _ in range(2)]
    assert [delivery.body for delivery in left] == [b"0", b"2"]
    assert all(delivery.method.redelivered for delivery in left)


@pytest.mark.parametrize("way", ["reject", "nack", "nack-multiple", "recover", "close"])
def test_requeued_messages_come_back_in_their_old_place_flagged(way, connection, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(6))
    other = connection.channel()
    taken = [get(other, queue, auto_ack=False) for _ in range(4)]
    if way == "reject":
        for delivery in (taken[2], taken[0], taken[3], taken[1]):
            other.basic_reject(delivery.tag, requeue=True)
    elif way == "nack":
        for delivery in reversed(taken):
            other.basic_nack(delivery.tag, requeue=True)
    elif way == "nack-multiple":
        other.basic_nack(taken[-1].tag, multiple=True, requeue=True)
    elif way == "recover":
        other.basic_recover(requeue=True)
    else:
        other.close()
    wait_for_count(channel, queue, 6)
    back = [get(channel, queue) for _ in range(6)]
    assert [delivery.body for delivery in back] == numbers(6)
    assert [delivery.method.redelivered for delivery in back] == [True] * 4 + [False] * 2


def test_a_single_requeued_message_goes_back_before_later_ones(connection, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(5))
    taken = [get(channel, queue, auto_ack=False) for _ in range(3)]
    channel.basic_nack(taken[1].tag, requeue=True)
    channel.basic_ack(taken[0].tag)
    wait_for_count(channel, queue, 3)
    channel.basic_nack(taken[2].tag, requeue=True)
    wait_for_count(channel, queue, 4)
    assert drain(channel, queue) == [b"1", b"2", b"3", b"4"]


def test_rejected_without_requeue_is_gone(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(3))
    taken = [get(channel, queue, auto_ack=False) for _ in range(3)]
    channel.basic_reject(taken[0].tag, requeue=False)
    channel.basic_nack(taken[2].tag, multiple=True, requeue=False)
    channel.connection.channel()
    assert count(channel, queue) == 0


def test_a_dead_connection_s_messages_go_to_another_consumer(connect, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(5))
    victim = connect()
    dying = Inbox(victim.channel(), queue)
    dying.wait(5)
    heir = Inbox(channel, queue)
    heir.exactly(0)
    break_off(victim)
    heir.wait(5)
    assert heir.bodies == numbers(5)
    assert all(delivery.method.redelivered for delivery in heir.deliveries)


def test_get_tells_how_many_are_left(channel, make_queue):
    queue = make_queue()
    assert get(channel, queue) is None
    publish(channel, queue, numbers(3))
    first = get(channel, queue)
    assert isinstance(first.method, Basic.GetOk)
    assert (first.method.message_count, first.method.redelivered, first.method.exchange) == (2, False, "")
    assert first.method.routing_key == queue
    assert get(channel, queue, auto_ack=False).method.message_count == 1
    assert get(channel, queue).method.message_count == 0
    assert get(channel, queue) is None


def test_cancel_stops_deliveries_and_keeps_what_is_unacked(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, numbers(2))
    inbox = Inbox(channel, queue, tag="mine")
    assert inbox.tag == "mine"
    inbox.wait(2)
    inbox.cancel()
    publish(channel, queue, [b"later"])
    inbox.exactly(2)
    channel.basic_ack(inbox.deliveries[0].tag)
    channel.basic_nack(inbox.deliveries[1].tag, requeue=True)
    wait_for_count(channel, queue, 2)
    assert drain(channel, queue) == [b"1", b"later"]


def test_a_server_made_consumer_tag_starts_like_rabbitmq_s(connection, make_queue):
    inner = connection.channel()._impl
    seen = []
    inner._rpc(Basic.Consume(queue=make_queue(exclusive=True), consumer_tag=""), seen.append, [(Basic.ConsumeOk, {})])
    pump(connection, lambda: seen, "consume-ok")
    assert seen[0].method.consumer_tag.startswith("amq.ctag-")


def test_the_broker_cancels_a_consumer_whose_queue_is_deleted(connect, channel, make_queue):
    queue = make_queue()
    consumer = connect().channel()
    cancelled = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tags = [Inbox(consumer, queue).tag for _ in range(2)]
    channel.queue_delete(queue)
    pump(consumer.connection, lambda: len(cancelled) == 2, "two cancels")
    assert sorted(cancelled) == sorted(tags)


def test_an_exclusive_consumer_is_alone(connection, channel, make_queue):
    queue = make_queue()
    inbox = Inbox(channel, queue, exclusive=True)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    for exclusive in (False, True):
        with closes(403, text):
            Inbox(connection.channel(), queue, exclusive=exclusive)
    inbox.cancel()
    Inbox(connection.channel(), queue)
    with closes(403, text):
        Inbox(connection.channel(), queue, exclusive=True)


def test_a_single_active_consumer_is_followed_by_the_next(connect, channel, make_queue):
    queue = make_queue(**{"x-single-active-consumer": True})
    consumers = [connect().channel() for _ in range(3)]
    inboxes = [Inbox(consumer, queue) for consumer in consumers]
    publish(channel, queue, numbers(4))
    inboxes[0].wait(4)
    consumers[0].basic_ack(inboxes[0].deliveries[1].tag, multiple=True)
    inboxes[1].exactly(0)
    inboxes[2].exactly(0)
    consumers[0].connection.close()  # the two that it had not acked go to the next, in order
    inboxes[1].wait(2)
    publish(channel, queue, [b"after"])
    inboxes[1].exactly(3)
    assert inboxes[1].bodies == [b"2", b"3", b"after"]
    inboxes[2].exactly(0)
    inboxes[1].cancel()
    publish(channel, queue, [b"last"])
    assert inboxes[2].exactly(1)[0].body == b"last"


def test_a_consumer_of_higher_priority_is_served_first(connect, channel, make_queue):
    queue = make_queue()
    consumers = {}
    for priority in (0, 10, -5):
        consumer = connect().channel()
        consumer.basic_qos(prefetch_count=3)
        consumers[priority] = Inbox(consumer, queue, arguments={"x-priority": priority})
    publish(channel, queue, numbers(3))
    assert [d.body for d in consumers[10].exactly(3)] == numbers(3)
    publish(channel, queue, numbers(3))
    consumers[0].exactly(3)
    publish(channel, queue, [b"left"])
    consumers[-5].exactly(1)
    consumers[10].channel.basic_ack(0, multiple=True)
    settle(consumers[10].channel, queue)
    publish(channel, queue, [b"again"])
    assert consumers[10].wait(4)[3].body == b"again"


def test_direct_reply_to_answers_without_a_queue(connect, channel, make_queue):
    queue = make_queue()
    server_side = connect().channel()
    requests = Inbox(server_side, queue, no_ack=True)
    caller = connect().channel()
    replies = Inbox(caller, "amq.rabbitmq.reply-to", no_ack=True)
    for number in range(3):
        caller.basic_publish(
            "", queue, str(number), BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
        )
    for request in requests.wait(3):
        assert request.properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        server_side.basic_publish(
            "",
            request.properties.reply_to,
            b"re: " + request.body,
            BasicProperties(correlation_id=request.properties.correlation_id, headers={"h": 1}),
        )
    replies.wait(3)
    assert [(r.properties.correlation_id, r.body) for r in replies.deliveries] == [
        (str(number), f"re: {number}".encode()) for number in range(3)
    ]
    assert replies.deliveries[0].method.exchange == ""
    assert replies.deliveries[0].properties.headers == {"h": 1}


def test_direct_reply_to_a_caller_that_left_is_unroutable(connect, channel, make_queue):
    queue = make_queue()
    connection = connect()
    caller = connection.channel()
    Inbox(caller, "amq.rabbitmq.reply-to", no_ack=True)
    caller.basic_publish("", queue, b"?", BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    address = get_when_there(channel, queue).properties.reply_to
    channel.queue_declare(address, passive=True)  # how a server asks whether the caller still waits
    connection.close()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", address, b"too late", mandatory=True)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        ("ack", "PRECONDITION_FAILED - reply consumer cannot acknowledge"),
        ("twice", "PRECONDITION_FAILED - reply consumer already set"),
        ("publish", "PRECONDITION_FAILED - fast reply consumer does not exist"),
    ],
)
def test_wrong_uses_of_direct_reply_to(use, text, connection):
    channel = connection.channel()
    with closes(406, text):
        if use == "ack":
            Inbox(channel, "amq.rabbitmq.reply-to")
        elif use == "twice":
            Inbox(channel, "amq.rabbitmq.reply-to", no_ack=True)
            Inbox(channel, "amq.rabbitmq.reply-to", no_ack=True)
        else:
            channel.basic_publish("", "nowhere", b"x", BasicProperties(reply_to="amq.rabbitmq.reply-to"))
            channel.basic_qos(prefetch_count=1)


def test_flow_is_taken_when_it_says_go_on_and_refused_when_it_says_stop(connection):
    assert connection.channel().flow(True) is True
    with closes(540, "NOT_IMPLEMENTED - active=false"):
        connection.channel().flow(False)
