"""Publishing: a run of messages from the scanner, or one message that came frame by frame, goes to the virtual host.

Answers come in RabbitMQ's order: what can't be routed and is mandatory comes back before its confirm. Confirms wait for the
end of the receive buffer (`confirms`).

Bound: `TARGETS` different exchanges and keys are remembered by a channel; then it starts anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from headrace.amqp.alarms import LOW_ON_DISK
from headrace.amqp.confirms import Confirms
from headrace.amqp.frames import ack_frame, content_frames, method_frame
from headrace.amqp.methods import BasicNack, BasicPublish, BasicReturn, ConfirmSelect, ConfirmSelectOk, decode, encode
from headrace.broker.queues.errors import frame_error, not_implemented, precondition_failed
from headrace.broker.queues.run import Run
from headrace.broker.vhosts.publishing import Published
from headrace.broker.vhosts.users import check_exchange_access, check_topic_access
from headrace.log.errors import DiskFull
from headrace.record.amqp.events import PUBLISH, PublishEvent
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import MalformedProperties, check_properties

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers
    from headrace.amqp.connection import AmqpConnection
    from headrace.broker.spans import Spans

NO_ROUTE = 312
TARGETS = 256
_HEADERS_FLAG = 0x20  # in the first byte of properties


class MustWait(Exception):
    """Publishers have to wait: the event is to be handled again when they need not."""

    def __init__(self, event: PublishEvent) -> None:
        super().__init__("low on disk or memory")
        self.event = event


class Target(NamedTuple):
    """Where a run goes; what was asked for it was allowed."""

    exchange: str
    routing_key: str
    mandatory: bool


def publish_run(channel: Channel, event: PublishEvent) -> None:
    """The hot path, in one piece: everything that is not plain goes elsewhere."""
    _, _, arguments, properties, records, count, body_bytes = event
    connection = channel.connection
    if connection.broker.log.refusal is not None:
        _check_disk(connection, event)
    target = channel.targets.get(arguments)
    if target is None:
        if connection.listener.blocked_reason:
            _hold(connection, event)
        target = _new_target(channel, arguments)
    if properties != channel.sound_properties:
        _check_properties(properties)
        channel.sound_properties = properties
    exchange, routing_key, mandatory = target
    run = Run(exchange, routing_key, records, count, body_bytes, properties)
    if connection.broker.spans is not None and properties[0] & _HEADERS_FLAG:
        _publish_within(connection.broker.spans, channel, run, mandatory)
        return
    if mandatory or channel.transaction is not None:
        _publish(channel, run, mandatory)
        return
    published = channel.vhost.publish(run, connection.user, channel.reply_name)
    channel.published += count
    if channel.confirms is not None:
        _await_confirm(channel, channel.confirms, count, published)


def _await_confirm(channel: Channel, confirms: Confirms, count: int, published: Published) -> None:
    confirms.published(count, durable=published.durable, refused=published.refused)
    to_confirm = channel.connection.dispatch.to_confirm
    if channel not in to_confirm:
        to_confirm.append(channel)


def publish_message(channel: Channel, method: BasicPublish, message: Message) -> None:
    run = Run.of([message])
    event = (PUBLISH, channel.number, encode(method)[4:], message.properties, run.records, 1, run.body_bytes)
    publish_run(channel, event)


def _hold(connection: AmqpConnection, event: PublishEvent) -> NoReturn:
    """A publisher is held from its first message on that comes while publishers have to wait."""
    connection.hold_publisher()
    raise MustWait(event)


def _new_target(channel: Channel, arguments: bytes) -> Target:
    method = cast(BasicPublish, decode(BasicPublish.prefix + arguments))
    if method.immediate:
        raise not_implemented("immediate=true")
    connection, vhost = channel.connection, channel.vhost
    connection.publishes = True
    user = connection.user_now()
    check_exchange_access(user, "write", method.exchange, vhost.name)
    if user.topic_permissions:
        exchange = vhost.exchanges.get(method.exchange)
        if exchange is not None and exchange.kind == "topic":
            check_topic_access(user, "write", method.exchange, method.routing_key, vhost.name)
    if len(channel.targets) >= TARGETS:
        channel.targets.clear()
    target = channel.targets[arguments] = Target(method.exchange, method.routing_key, method.mandatory)
    return target


def _check_disk(connection: AmqpConnection, event: PublishEvent) -> None:
    """A full disk is no reason to lose what a publisher could not know of; one that can't be written to is an error."""
    if isinstance(connection.broker.log.refusal, DiskFull):
        connection.listener.block(LOW_ON_DISK)
        _hold(connection, event)


def _check_properties(raw: bytes) -> None:
    try:
        check_properties(raw)
    except MalformedProperties as error:
        raise frame_error(f"cannot decode properties: {error}") from None


def _publish_within(spans: Spans, channel: Channel, run: Run, mandatory: bool) -> None:
    """The same with a span, if the messages ask for one."""
    from headrace.amqp.publish_spans import begin_publish, end_publish  # where somebody collects them

    span = begin_publish(spans, run, channel.vhost.name)
    if span is None:
        _publish(channel, run, mandatory)
        return
    try:
        published = _publish(channel, run, mandatory)
    except Exception as error:
        spans.end(span, type(error).__name__, message=getattr(error, "text", ""))
        raise
    end_publish(spans, span, published)


def _publish(channel: Channel, run: Run, mandatory: bool) -> Published | None:
    """None where there is no one answer."""
    if mandatory and run.count > 1 and channel.vhost.router.sees_each_message(run.exchange):
        for message in run.messages():  # each may go its own way, or come back
            _publish(channel, Run.of([message]), mandatory)
    elif channel.transaction is not None:
        channel.transaction.publish(channel, run, mandatory)
    else:
        published = deliver(channel, run, mandatory)
        if channel.confirms is not None:
            _await_confirm(channel, channel.confirms, run.count, published)
        return published
    return None


def deliver(channel: Channel, run: Run, mandatory: bool) -> Published:
    """To the queues, or back to the publisher."""
    published = channel.vhost.publish(run, channel.connection.user, channel.reply_name)
    channel.published += run.count
    if mandatory and not published.routed:
        give_back(channel, published.unrouted or run)
    return published


def give_back(channel: Channel, run: Run) -> None:
    connection, number = channel.connection, channel.number
    method = method_frame(number, BasicReturn(NO_ROUTE, "NO_ROUTE", run.exchange, run.routing_key))
    for message in run.messages():
        connection.write(method + content_frames(number, message.properties, message.body, connection.frame_max))


def _confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:

        def answer(sequence: int, multiple: bool, ack: bool) -> None:
            if channel.open and ack:
                channel.connection.write(ack_frame(channel.number, sequence, multiple))
            elif channel.open:
                channel.send(BasicNack(sequence, multiple))

        listener = channel.connection.listener
        times = listener.traffic.requests["basic.publish"]
        channel.confirms = Confirms(listener.broker.vhosts.turns, answer, times, listener.wakefulness)
    if not method.nowait:
        channel.send(ConfirmSelectOk())


HANDLERS: Handlers = {ConfirmSelect: _confirm_select}
