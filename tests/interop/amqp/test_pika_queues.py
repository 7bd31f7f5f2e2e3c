"""pika: the life of queues. Declared, checked, exclusive, deleted by rule or by hand, expired, purged."""

from __future__ import annotations

import re

import pika
import pytest
from tests.interop.amqp.inbox import Inbox, break_off, closes, count, drain, get, get_when_there, gone, publish, pump, settle

pytestmark = pytest.mark.interop


def test_declaring_again_tells_what_is_there(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [b"1", b"2", b"3"])
    channel.basic_qos(prefetch_count=1)
    Inbox(channel, queue).wait(1)
    ok = channel.queue_declare(queue, durable=True).method
    assert (ok.queue, ok.message_count, ok.consumer_count) == (queue, 2, 1)


def test_a_server_named_queue_has_a_name_like_rabbitmq_s(connection):
    channel = connection.channel()
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)


def test_the_last_declared_queue_may_go_unnamed(connection):
    channel = connection.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.direct", name)
    channel.basic_publish("amq.direct", name, b"x")
    assert get_when_there(channel, "").body == b"x"
    assert channel.queue_purge("").method.message_count == 0
    with closes(404, "NOT_FOUND - no queue '' in vhost '/'"):  # a passive declare is not such a shortcut
        channel.queue_declare("", passive=True)


def test_a_passive_declare_of_nothing_closes_the_channel(connection, unique):
    name = unique("nothing")
    with closes(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        connection.channel().queue_declare(name, passive=True)


def test_an_exclusive_queue_is_its_connection_s_alone(connect, connection, unique):
    owner, name = connection.channel(), unique("exclusive")
    owner.queue_declare(name, exclusive=True)
    publish(connection.channel(), name, [b"another channel may"])
    locked = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original declaration."
    )
    other = connect()
    for use in (
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: channel.queue_declare(name, exclusive=True),
        lambda channel: channel.queue_bind(name, "amq.fanout"),
        lambda channel: channel.basic_get(name),
        lambda channel: Inbox(channel, name),
        lambda channel: channel.queue_purge(name),
        lambda channel: channel.queue_delete(name),
    ):
        with closes(405, locked):
            use(other.channel())
    publish(other.channel(), name, [b"and anyone may publish"])
    pump(connection, lambda: count(owner, name) == 2, "both messages")


@pytest.mark.parametrize("farewell", [True, False])
def test_an_exclusive_queue_goes_with_its_connection(farewell, connect, channel, unique):
    owner, name = connect(), unique("exclusive")
    owner.channel().queue_declare(name, exclusive=True, durable=True)
    if farewell:
        owner.close()
    else:
        break_off(owner)
    pump(channel.connection, lambda: gone(channel, name), "the end of the queue")


def test_an_auto_delete_queue_goes_with_its_last_consumer(connect, channel, make_queue):
    queue = make_queue(auto_delete=True, durable=False)
    publish(channel, queue, [b"not without a consumer first"])
    assert not gone(channel, queue)
    first, second = connect(), channel
    inbox = Inbox(second, queue, no_ack=True)
    Inbox(first.channel(), queue)
    inbox.cancel()
    assert not gone(channel, queue)
    first.close()
    pump(channel.connection, lambda: gone(channel, queue), "the end of the queue")


def test_an_expiring_queue_goes_when_nobody_used_it(channel, make_queue):
    queue = make_queue(**{"x-expires": 300})
    publish(channel, queue, [b"messages do not count as use"])
    pump(channel.connection, lambda: _gone_without_touching(channel, queue), "the end of the queue")


def _gone_without_touching(channel, queue):
    """A passive declare would be a use, so this asks by a publish."""
    try:
        channel.basic_publish("", queue, b"", mandatory=True)
    except pika.exceptions.UnroutableError:
        return True
    return False


def test_an_expiring_queue_with_a_consumer_stays(channel, make_queue):
    kept, other = make_queue(**{"x-expires": 1000}), make_queue(**{"x-expires": 1500})
    Inbox(channel, kept, no_ack=True)
    pump(channel.connection, lambda: _gone_without_touching(channel, other), "the end of the other queue")
    assert not gone(channel, kept)


def test_purge_takes_what_is_ready_and_leaves_what_is_unacked(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [b"unacked", b"ready", b"ready"])
    delivery = get(channel, queue, auto_ack=False)
    assert channel.queue_purge(queue).method.message_count == 2
    assert channel.queue_purge(queue).method.message_count == 0
    channel.basic_nack(delivery.tag, requeue=True)
    pump(channel.connection, lambda: count(channel, queue) == 1, "the one that was not purged")
    publish(channel, queue, [b"new"])
    assert drain(channel, queue) == [b"unacked", b"new"]


def test_delete_tells_how_many_messages_went(channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [b"1", b"2"])
    assert channel.queue_delete(queue).method.message_count == 2
    assert channel.queue_delete(queue).method.message_count == 0  # deleting what is not there is no error
    assert gone(channel, queue)


def test_delete_can_be_refused_while_in_use_or_not_empty(connection, channel, make_queue):
    queue = make_queue()
    inbox = Inbox(channel, queue)
    with closes(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        connection.channel().queue_delete(queue, if_unused=True)
    inbox.cancel()
    publish(channel, queue, [b"x"])
    with closes(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        connection.channel().queue_delete(queue, if_empty=True)
    channel.queue_purge(queue)
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    assert gone(channel, queue)


def test_a_queue_is_bound_twice_and_unbound_once(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("direct"), make_queue()
    for _ in range(2):
        channel.queue_bind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"x")
    channel.queue_unbind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"y")
    channel.queue_unbind(queue, exchange, "k")  # unbinding what is not bound is no error
    assert drain(channel, queue) == [b"x"]


def test_names_may_hold_anything(channel, made, unique):
    for stem in ("ünïcode 🚰", "with space", "sl/ash", "a" * 200, "%41 .*# ?&"):
        name = unique(stem)
        made.queues.append(name)
        assert channel.queue_declare(name, durable=True).method.queue == name
        publish(channel, name, [stem])
        assert drain(channel, name) == [stem.encode()]


def test_a_queue_deleted_and_declared_again_is_empty_and_unbound(channel, make_queue, make_exchange):
    exchange, queue = make_exchange("fanout"), make_queue()
    channel.queue_bind(queue, exchange)
    publish(channel, queue, [b"old"])
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    channel.basic_publish(exchange, "", b"not bound")
    settle(channel, queue)
    assert count(channel, queue) == 0


def test_many_queues_bound_to_one_exchange(channel, connection, make_exchange):
    exchange = make_exchange("topic")
    session = connection.channel()
    queues = [session.queue_declare("", exclusive=True).method.queue for _ in range(100)]
    for number, queue in enumerate(queues):
        session.queue_bind(queue, exchange, f"n.{number % 10}.#")
    channel.basic_publish(exchange, "n.3.x", b"x")
    assert [number for number, queue in enumerate(queues) if drain(session, queue)] == list(range(3, 100, 10))
