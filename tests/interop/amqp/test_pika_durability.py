"""pika: what survives. A broker stopped, or killed, and started again on its data."""

from __future__ import annotations

from dataclasses import dataclass

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties
from tests.interop.amqp.conftest import Broker
from tests.interop.amqp.inbox import Inbox, get, get_when_there, gone, publish, pump, settle, wait_for_count

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@dataclass(frozen=True, slots=True)
class Again:
    """Ends the broker and starts it again; gives a channel to the new one."""

    broker: Broker
    killed: bool

    def __call__(self) -> BlockingChannel:
        self.broker.restart(crash=self.killed)
        return confirmed_channel(self.broker)


@pytest.fixture(params=["stopped", "killed"])
def again(request, own_broker) -> Again:
    return Again(own_broker, request.param == "killed")


def confirmed_channel(broker):
    channel = broker.connect().channel()
    channel.confirm_delivery()
    return channel


def test_durable_things_and_persistent_messages_survive(own_broker, again, unique):
    queue, lost, exchange, other, passing, stream = map(unique, ("kept", "lost", "exchange", "other", "passing", "stream"))
    channel = confirmed_channel(own_broker)
    arguments = {"x-max-priority": 4, "x-dead-letter-exchange": other}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_declare(lost, durable=False)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare(exchange, "topic", durable=True, arguments={"alternate-exchange": other})
    channel.exchange_declare(other, "fanout", durable=True)
    channel.exchange_declare(passing, "fanout", durable=False)
    channel.queue_bind(queue, exchange, "a.#")
    channel.exchange_bind(exchange, other, "")
    publish(channel, queue, [b"low"], priority=0, headers={"h": [1, {"two": True}]}, message_id="m")
    publish(channel, queue, [b"high"], priority=4)
    publish(channel, stream, [b"s0", b"s1"])
    channel.basic_publish("", queue, b"transient", BasicProperties(delivery_mode=1))
    publish(channel, queue, [b"acked", b"unacked"], priority=3)
    taken = [get(channel, queue, auto_ack=False) for _ in range(3)]
    assert [delivery.body for delivery in taken] == [b"high", b"acked", b"unacked"]
    channel.basic_ack(taken[1].tag)
    channel.basic_nack(taken[0].tag, requeue=True)
    wait_for_count(channel, queue, 3)  # low, transient, and high again: the acks before that have been seen too

    channel = again()
    assert gone(channel, lost)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.connection.channel().exchange_declare(passing, passive=True)
    channel.queue_declare(queue, durable=True, arguments=arguments)  # the same as before
    channel.exchange_declare(exchange, "topic", durable=True, arguments={"alternate-exchange": other})
    channel.basic_publish(exchange, "a.b", b"through the binding", BasicProperties(delivery_mode=2))
    back = {delivery.body: delivery for delivery in iter(lambda: get(channel, queue), None)}
    back.pop(b"transient", None)  # a broker may keep what it need not
    if late := back.pop(b"acked", None):  # a kill may come before the ack is written, and then the message is flagged
        assert late.method.redelivered
    assert list(back) == [b"high", b"unacked", b"low", b"through the binding"]
    assert [back[body].method.redelivered for body in (b"high", b"unacked")] == [True, True]
    assert (back[b"low"].properties.message_id, back[b"low"].properties.headers) == ("m", {"h": [1, {"two": True}]})
    pump(channel.connection, lambda: not gone(channel, stream), "the stream")
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, stream, arguments={"x-stream-offset": "first"})
    inbox.wait(2)
    assert inbox.bodies == [b"s0", b"s1"]
    inbox.cancel()
    for name in (queue, stream):
        channel.queue_delete(name)
    for name in (exchange, other):
        channel.exchange_delete(name)


def test_a_time_to_live_goes_on_over_a_restart(own_broker, again, unique):
    queue, dead = unique("mortal"), unique("dead")
    channel = confirmed_channel(own_broker)
    channel.queue_declare(dead, durable=True)
    channel.queue_declare(
        queue,
        durable=True,
        arguments={"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead},
    )
    publish(channel, queue, [b"x"])
    channel = again()
    letter = get_when_there(channel, dead)
    assert (letter.body, letter.properties.headers["x-death"][0]["reason"]) == (b"x", "expired")
    for name in (queue, dead):
        channel.queue_delete(name)


def test_a_large_backlog_survives_in_order(own_broker, again, unique):
    queue = unique("backlog")
    channel = own_broker.connect().channel()
    channel.queue_declare(queue, durable=True)
    for number in range(5000):
        channel.basic_publish("", queue, b"%d " % number + bytes(100), BasicProperties(delivery_mode=2))
    channel.confirm_delivery()
    publish(channel, queue, [b"5000 "])
    inbox = Inbox(channel, queue)
    inbox.wait(5001)
    for delivery in inbox.deliveries[:4000:2]:
        channel.basic_ack(delivery.tag)
    inbox.cancel()
    channel.basic_nack(0, multiple=True, requeue=True)
    wait_for_count(channel, queue, 3001)
    channel = again()
    left = Inbox(channel, queue, no_ack=True)
    left.wait(3001)
    wait_for_count(channel, queue, 0)
    settle(channel, queue)
    numbers = [int(body.split()[0]) for body in left.bodies]
    expected = [*range(1, 4000, 2), *range(4000, 5001)]
    if again.killed:  # acks of the last moments may be lost with it; what comes back is flagged and in its place
        assert numbers == sorted(set(numbers))
        assert set(expected) <= set(numbers)
    else:
        assert numbers == expected
    assert all(delivery.method.redelivered for delivery in left.deliveries)
    channel.queue_delete(queue)
