"""pika: wrong uses, and the close code and text that RabbitMQ gives for each. Where 4.x says it differently a note tells."""

from __future__ import annotations

import pika
import pytest
from pika import spec
from pika.spec import Basic, BasicProperties
from tests.interop.amqp.inbox import Inbox, closes, publish, pump

pytestmark = pytest.mark.interop


def declare(arguments=None, **flags):
    return lambda channel, name: channel.queue_declare(name, **{"durable": True, **flags}, arguments=arguments)


def send(channel, method, content=None):
    channel._impl._send_method(method, content)
    pump(channel.connection, lambda: channel.is_closed, "the close")


CHANNEL_ERRORS = {
    "consume-no-queue": (404, "NOT_FOUND - no queue '{}' in vhost '/'", lambda c, n: Inbox(c, n)),
    "get-no-queue": (404, "NOT_FOUND - no queue '{}' in vhost '/'", lambda c, n: c.basic_get(n)),
    "purge-no-queue": (404, "NOT_FOUND - no queue '{}' in vhost '/'", lambda c, n: c.queue_purge(n)),
    "bind-no-queue": (404, "NOT_FOUND - no queue '{}' in vhost '/'", lambda c, n: c.queue_bind(n, "amq.direct", "k")),
    "bind-no-source": (
        404,
        "NOT_FOUND - no exchange '{}' in vhost '/'",
        lambda c, n: c.exchange_bind("amq.fanout", n, "k"),
    ),
    "bind-no-destination": (
        404,
        "NOT_FOUND - no exchange '{}' in vhost '/'",
        lambda c, n: c.exchange_bind(n, "amq.fanout", "k"),
    ),
    "passive-exchange": (
        404,
        "NOT_FOUND - no exchange '{}' in vhost '/'",
        lambda c, n: c.exchange_declare(n, passive=True),
    ),
    "unnamed-queue": (404, "NOT_FOUND - no previously declared queue", lambda c, n: c.basic_get("")),
    "reserved-queue": (
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
        lambda c, n: c.queue_declare("amq.mine"),
    ),
    "reserved-exchange": (
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        lambda c, n: c.exchange_declare("amq.mine", "direct"),
    ),
    "default-exchange-declare": (
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
        lambda c, n: c.exchange_declare("", "direct", durable=True),
    ),
    "default-exchange-delete": (
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
        lambda c, n: c._impl._send_method(spec.Exchange.Delete(exchange="")) or c.basic_qos(),
    ),
    "default-exchange-bind": (
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
        lambda c, n: c.queue_bind(c.queue_declare("", exclusive=True).method.queue, "", "k"),
    ),
    "delete-predeclared": (
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
        lambda c, n: c.exchange_delete("amq.topic"),
    ),
    "exchange-type-differs": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': "
        "received 'direct' but current is 'topic'",
        lambda c, n: c.exchange_declare("amq.topic", "direct", durable=True),
    ),
    "exchange-durable-differs": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.topic' in vhost '/': "
        "received 'false' but current is 'true'",
        lambda c, n: c.exchange_declare("amq.topic", "topic"),
    ),
    "alternate-exchange-type": (
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange '{}' in vhost '/'",
        lambda c, n: c.exchange_declare(n, "direct", arguments={"alternate-exchange": 1}),
    ),
    "consistent-hash-weight": (
        406,
        'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>',
        lambda c, n: (
            c.exchange_declare(n, "x-consistent-hash", auto_delete=True),
            c.queue_bind(c.queue_declare("", exclusive=True).method.queue, n, "heavy"),
        ),
    ),
    "headers-x-match": (
        406,
        None,  # 'Invalid x-match field value "some"; expected all, any, all-with-x, or any-with-x', in the words of the version
        lambda c, n: c.queue_bind(c.queue_declare("", exclusive=True).method.queue, "amq.headers", "", {"x-match": "some"}),
    ),
    "unknown-tag": (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
        lambda c, n: c.basic_ack(7) or c.basic_qos(),
    ),
    "unknown-tag-nack": (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
        lambda c, n: c.basic_nack(7) or c.basic_qos(),
    ),
    "ack-twice": (406, "PRECONDITION_FAILED - unknown delivery tag 1", lambda c, n: ack_twice(c)),
    "bad-expiration": (
        406,
        "PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
        lambda c, n: c.basic_publish("", n, b"x", BasicProperties(expiration="soon")) or c.basic_qos(),
    ),
    "negative-expiration": (
        406,
        "PRECONDITION_FAILED - invalid expiration '-1': {{value_negative,-1}}",
        lambda c, n: c.basic_publish("", n, b"x", BasicProperties(expiration="-1")) or c.basic_qos(),
    ),
    "ttl-type": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{}' in vhost '/': \"expected integer, got longstr\"",
        declare({"x-message-ttl": "60"}),
    ),
    "ttl-negative": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '{}' in vhost '/': {{value_negative,-1}}",
        declare({"x-message-ttl": -1}),
    ),
    "expires-zero": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-expires' for queue '{}' in vhost '/': {{value_zero,0}}",
        declare({"x-expires": 0}),
    ),
    "length-type": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue '{}' in vhost '/': \"expected integer, got longstr\"",
        declare({"x-max-length": "9"}),
    ),
    "overflow-value": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue '{}' in vhost '/': invalid_overflow",
        declare({"x-overflow": "sideways"}),
    ),
    "dead-letter-key-alone": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '{}' in vhost '/': "
        "routing_key_but_no_dlx_defined",
        declare({"x-dead-letter-routing-key": "k"}),
    ),
    "priority-too-many": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '{}' in vhost '/': {{max_value_exceeded,300}}",
        declare({"x-max-priority": 300}),
    ),
    "queue-type": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{}' in vhost '/': \"unsupported queue type 'fast'\"",
        declare({"x-queue-type": "fast"}),
    ),
    "durable-differs": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{}' in vhost '/': received 'true' but current is 'false'",
        lambda c, n: (c.queue_declare(n, auto_delete=True), c.queue_declare(n, auto_delete=True, durable=True)),
    ),
    "auto-delete-differs": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '{}' in vhost '/': "
        "received 'true' but current is 'false'",
        lambda c, n: (c.queue_declare(n, exclusive=True), c.queue_declare(n, auto_delete=True, exclusive=True)),
    ),
    "exclusive-differs": (
        405,
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally declared "
        "on another connection or the exclusive property value does not match that of the original declaration.",
        lambda c, n: (c.queue_declare(n, exclusive=True), c.queue_declare(n)),
    ),
    "argument-missing": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{}' in vhost '/': "
        "received none but current is the value '5' of type 'signedint'",
        lambda c, n: (
            c.queue_declare(n, exclusive=True, arguments={"x-max-length": 5}),
            c.queue_declare(n, exclusive=True),
        ),
    ),
    "argument-differs": (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue '{}' in vhost '/': "
        "received 'b' but current is 'a'",
        lambda c, n: (
            c.queue_declare(n, exclusive=True, arguments={"x-dead-letter-exchange": "a"}),
            c.queue_declare(n, exclusive=True, arguments={"x-dead-letter-exchange": "b"}),
        ),
    ),
    "consumer-priority-type": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{}' in vhost '/': \"expected integer, got longstr\"",
        lambda c, n: (c.queue_declare(n, exclusive=True), Inbox(c, n, arguments={"x-priority": "high"})),
    ),
    "offset-in-a-classic-queue": (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{}' in vhost '/' of queue type rabbit_classic_queue",
        lambda c, n: (c.queue_declare(n, exclusive=True), Inbox(c, n, arguments={"x-stream-offset": "first"})),
    ),
    "unknown-exchange-type": (
        406,  # 3.x: 503, which closes the connection
        "PRECONDITION_FAILED - unknown exchange type 'sideways'",
        lambda c, n: c.exchange_declare(n, "sideways"),
    ),
}

CONNECTION_ERRORS = {
    "prefetch-size": (540, "NOT_IMPLEMENTED - prefetch_size!=0 (8)", lambda c, n: c.basic_qos(prefetch_size=8)),
    "tag-reused": (
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'mine'",
        lambda c, n: (
            c.queue_declare(n, exclusive=True),
            Inbox(c, n, tag="mine"),
            c._impl._send_method(Basic.Consume(queue=n, consumer_tag="mine")),
            c.basic_qos(),
        ),
    ),
    "prefetch-for-all-of-a-quorum-queue": (
        540,
        "NOT_IMPLEMENTED - queue '{}' in vhost '/' does not support global qos",
        lambda c, n: (
            c.queue_declare(n, durable=True, arguments={"x-queue-type": "quorum", "x-expires": 60_000}),
            c.basic_qos(prefetch_count=1, global_qos=True),
            Inbox(c, n),
        ),
    ),
    "recover-without-requeue": (
        540,
        "NOT_IMPLEMENTED - requeue=false",
        lambda c, n: c.basic_recover(requeue=False),
    ),
    "header-of-another-class": (505, None, lambda c, n: header_first(c)),
    "method-instead-of-header": (
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
        lambda c, n: no_header(c, n),
    ),
    "channel-opened-twice": (
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
        lambda c, n: send(c, spec.Channel.Open()),
    ),
    "channel-never-opened": (
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
        lambda c, n: other_channel(c),
    ),
}


def ack_twice(channel):
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"x")
    pump(channel.connection, lambda: channel.queue_declare(queue, passive=True).method.message_count, "the message")
    channel.basic_get(queue)
    channel.basic_ack(1)
    channel.basic_ack(1)
    channel.basic_qos()


def header_first(channel):
    inner = channel.connection._impl
    inner._send_frame(pika.frame.Header(channel.channel_number, 1, BasicProperties()))
    pump(channel.connection, lambda: False, "the close")


def no_header(channel, name):
    channel._impl._send_method(Basic.Publish(routing_key=name))
    channel.connection._impl._send_frame(pika.frame.Method(channel.channel_number, Basic.Qos()))
    pump(channel.connection, lambda: False, "the close")


def other_channel(channel):
    channel.connection._impl._send_frame(pika.frame.Method(77, Basic.Qos()))
    pump(channel.connection, lambda: False, "the close")


@pytest.mark.parametrize("wrong", CHANNEL_ERRORS)
def test_a_wrong_use_closes_the_channel_with_rabbitmq_s_words(wrong, connection, unique):
    code, text, use = CHANNEL_ERRORS[wrong]
    name = unique(wrong)
    with closes(code, None if text is None else text.format(name)):
        use(connection.channel(), name)
    assert connection.is_open
    connection.channel().basic_qos()  # and the connection goes on


@pytest.mark.parametrize("wrong", CONNECTION_ERRORS)
def test_a_worse_use_closes_the_connection_with_rabbitmq_s_words(wrong, connection, unique):
    code, text, use = CONNECTION_ERRORS[wrong]
    name = unique(wrong)
    with closes(code, None if text is None else text.format(name)):
        use(connection.channel(), name)
    assert connection.is_closed


def test_other_channels_go_on_when_one_is_closed(connection, make_queue, unique):
    queue = make_queue()
    channels = [connection.channel() for _ in range(3)]
    with closes(404):
        channels[1].queue_declare(unique("nothing"), passive=True)
    inbox = Inbox(channels[2], queue, no_ack=True)
    publish(channels[0], queue, [b"x"])
    assert inbox.wait(1)[0].body == b"x"


def test_a_channel_that_was_closed_gives_its_unacked_messages_back(connection, channel, make_queue):
    queue = make_queue()
    publish(channel, queue, [b"1", b"2"])
    victim = connection.channel()
    inbox = Inbox(victim, queue)
    inbox.wait(2)
    with closes(406, "PRECONDITION_FAILED - unknown delivery tag 99"):
        victim.basic_ack(99)
        victim.basic_qos()
    heir = Inbox(channel, queue)
    heir.wait(2)
    assert (heir.bodies, [delivery.method.redelivered for delivery in heir.deliveries]) == ([b"1", b"2"], [True, True])
