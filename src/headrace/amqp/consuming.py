"""Consuming: consumers as their queues see them, basic.qos, basic.consume, basic.cancel and basic.get.

A consumer has room for as many messages as its prefetch and its channel's allow, and for none while its connection has enough
to send. It remembers when a queue was told that there is no room, and wakes the queue when there is some again.

Bound: `CONSUMERS` for a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING

from headrace.amqp.frames import content_frames, method_frame
from headrace.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
)
from headrace.amqp.names import queue_name, random_name
from headrace.amqp.unacked import Delivered
from headrace.broker.exchanges.values import type_name
from headrace.broker.queues.errors import not_allowed, not_implemented, precondition_failed
from headrace.broker.queues.stream_arguments import refuse_stream_arguments
from headrace.broker.vhosts.arguments import is_integer
from headrace.broker.vhosts.names import REPLY_TO, queue_text
from headrace.broker.vhosts.users import check_queue_access
from headrace.record.amqp.message import Message, read_message
from headrace.record.amqp.properties import headers as headers_of
from headrace.record.amqp.properties import with_headers
from headrace.record.amqp.twin import deliver

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.queues.consumers import Chunk

CONSUMERS = 65_536
UNLIMITED = 1 << 30


class ChannelConsumer:
    __slots__ = (
        "_connection", "_tag", "arguments", "channel", "exclusive", "global_qos", "no_ack", "prefetch", "prefetch_count",
        "priority", "queue", "starved", "tag", "unacked",
    )  # fmt: skip

    def __init__(self, channel: Channel, queue: AnyQueue, method: BasicConsume, tag: str, priority: int) -> None:
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = method.no_ack
        self.exclusive = method.exclusive
        self.priority = priority
        self.arguments = method.arguments
        self.prefetch = 0 if method.no_ack else channel.consumer_prefetch
        self.prefetch_count = channel.consumer_prefetch  # for streams, which ask for one, and for no limit of the whole channel
        self.global_qos = channel.prefetch > 0
        self.unacked = 0
        self.starved = False
        self._connection = channel.connection
        self._tag = tag.encode("utf-8", "surrogateescape")

    def room(self) -> int:
        connection, channel = self._connection, self.channel
        if connection.outbox.full:
            connection.outbox.starve(self.queue)
            return 0
        if not channel.open:
            return 0
        room = self.prefetch - self.unacked if self.prefetch else UNLIMITED
        if channel.prefetch:
            left = channel.prefetch - channel.consumed
            if left < room and not (self.no_ack and left > 0):  # without acknowledgements it does not count, but has to wait
                room = left
        if room <= 0:
            self.starved = True
            return 0
        return room

    def deliver(self, chunk: Chunk) -> int:
        channel, connection, count = self.channel, self._connection, chunk.count
        tag = channel.next_tag
        channel.next_tag = tag + count
        if chunk.delivery_count or chunk.headers is not None:
            frames, position = self._with_more_headers(chunk, tag)
        else:
            frames, position, _ = deliver(
                chunk.data,
                chunk.position,
                count,
                self._tag,
                tag,
                chunk.redelivered,
                channel.number,
                connection.frame_max,
            )
        if not self.no_ack:
            self.unacked += count
            channel.consumed += count
            now = connection.listener.now
            channel.unacked.add(Delivered(tag, count, self, chunk.queue, chunk.lane, chunk.first_offset, now))
            if channel.prefetch and channel.consumers.pop(self.tag, None) is not None:
                channel.consumers[self.tag] = self  # behind the others: what they may get together goes around
        connection.write(frames)
        return position

    def _with_more_headers(self, chunk: Chunk, tag: int) -> tuple[bytes, int]:
        position, frames = chunk.position, bytearray()
        for number in range(chunk.count):
            message, position = read_message(chunk.data, position)
            frames += deliver_frames(self.channel, self.tag, tag + number, chunk.redelivered, add_headers(chunk, message))
        return bytes(frames), position

    def settled(self, count: int) -> None:
        """So many of its deliveries are not outstanding any more."""
        channel = self.channel
        self.unacked -= count
        channel.consumed -= count
        if channel.prefetch:
            for consumer in channel.consumers.values():
                consumer.feed()
        else:
            self.feed()

    def feed(self) -> None:
        if self.starved:
            self.starved = False
            self.queue.wake()

    def cancelled(self) -> None:
        channel = self.channel
        channel.consumers.pop(self.tag, None)
        if channel.open and self._connection.capabilities.get("consumer_cancel_notify") is True:
            self._connection.dispatch.tell(channel, BasicCancel(self.tag, True))


class ReplyConsumer:
    """Direct reply-to: a consumer without a queue. Answers go straight from their publisher to its channel."""

    def __init__(self, channel: Channel, tag: str) -> None:
        self._channel = channel
        self.tag = tag
        self.name = f"{REPLY_TO}.{random_name()}"

    def deliver_reply(self, message: Message) -> None:
        channel = self._channel
        if channel.open:
            tag = channel.next_tag
            channel.next_tag += 1
            channel.connection.write(deliver_frames(channel, self.tag, tag, False, message))


def deliver_frames(channel: Channel, consumer_tag: str, tag: int, redelivered: bool, message: Message) -> bytes:
    number = channel.number
    method = BasicDeliver(consumer_tag, tag, redelivered, message.exchange, message.routing_key)
    content = content_frames(number, message.properties, message.body, channel.connection.frame_max)
    return method_frame(number, method) + content


def add_headers(chunk: Chunk, message: Message) -> Message:
    """The message as it is delivered: with what its queue wants to say about it."""
    if not chunk.delivery_count and chunk.headers is None:
        return message
    more: dict[str, object] = dict(chunk.headers or {})
    if chunk.delivery_count:
        more["x-delivery-count"] = chunk.delivery_count
    return message._replace(properties=with_headers(message.properties, {**headers_of(message.properties), **more}))


# --- basic.qos


def _qos(channel: Channel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
    else:
        channel.prefetch = 0
        channel.consumer_prefetch = method.prefetch_count
    for consumer in channel.consumers.values():
        consumer.feed()
    channel.send(BasicQosOk())


# --- basic.consume and basic.cancel


def _consume(channel: Channel, method: BasicConsume) -> None:
    tag = method.consumer_tag
    if tag and (tag in channel.consumers or (channel.reply_consumer is not None and channel.reply_consumer.tag == tag)):
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    if len(channel.consumers) >= CONSUMERS:
        raise not_allowed(f"reached maximum ({CONSUMERS}) of consumers per channel")
    name = queue_name(channel, method.queue)
    tag = tag or f"amq.ctag-{random_name()}"
    if name == REPLY_TO:
        _consume_replies(channel, method, tag)
    else:
        queue = _queue_to_read(channel, name)
        if queue.kind != "stream":
            refuse_stream_arguments(queue_text(name, queue.vhost), queue.kind, method.arguments)
        consumer = ChannelConsumer(channel, queue, method, tag, _priority(method.arguments, queue))
        queue.consume(consumer)
        channel.consumers[tag] = consumer
    if not method.nowait:
        channel.send(BasicConsumeOk(tag))


def _queue_to_read(channel: Channel, name: str) -> AnyQueue:
    check_queue_access(channel.connection.user_now(), "read", name, channel.vhost.name)
    return channel.vhost.queue(name, channel.connection)


def _priority(arguments: Mapping[str, object], queue: AnyQueue) -> int:
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, int) and is_integer(priority):
        return priority
    wrong = f'"expected integer, got {type_name(priority)}"'
    raise precondition_failed(f"invalid arg 'x-priority' for {queue_text(queue.name, queue.vhost)}: {wrong}")


def _consume_replies(channel: Channel, method: BasicConsume, tag: str) -> None:
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise precondition_failed("reply consumer already set")
    channel.reply_consumer = consumer = ReplyConsumer(channel, tag)
    channel.reply_name = consumer.name
    channel.vhost.reply_names[consumer.name] = consumer


def _cancel(channel: Channel, method: BasicCancel) -> None:
    tag = method.consumer_tag
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        consumer.queue.pump()  # what was published before goes to it still
        consumer.queue.cancel(consumer)
    elif channel.reply_consumer is not None and channel.reply_consumer.tag == tag:
        _forget_replies(channel)
    if not method.nowait:
        channel.send(BasicCancelOk(tag))


def _cancel_ok(channel: Channel, method: BasicCancelOk) -> None:
    """The client has seen that we cancelled its consumer."""


def _forget_replies(channel: Channel) -> None:
    if channel.reply_consumer is not None:
        channel.vhost.reply_names.pop(channel.reply_consumer.name, None)
        channel.reply_consumer = channel.reply_name = None


def leave_all(channel: Channel) -> None:
    _forget_replies(channel)
    consumers, channel.consumers = channel.consumers, {}
    for consumer in consumers.values():
        consumer.queue.cancel(consumer)


# --- basic.get


def _get(channel: Channel, method: BasicGet) -> None:
    queue = _queue_to_read(channel, queue_name(channel, method.queue))
    got = queue.get(method.no_ack)

    def answer(chunk: Chunk | None) -> None:
        _got(channel, queue, chunk, method.no_ack)

    if isawaitable(got):
        channel.connection.parking.wait_for(channel.number, method.ids, got, answer)
    else:
        answer(got)


def _got(channel: Channel, queue: AnyQueue, chunk: Chunk | None, no_ack: bool) -> None:
    if not channel.open:
        if chunk is not None and not no_ack:
            queue.requeue(chunk.lane, chunk.first_offset, 1, failed=False)
        return
    if chunk is None:
        channel.send(BasicGetEmpty())
        return
    tag = channel.next_tag
    channel.next_tag += 1
    message = add_headers(chunk, read_message(chunk.data, chunk.position)[0])
    connection, number = channel.connection, channel.number
    method = BasicGetOk(tag, chunk.redelivered, message.exchange, message.routing_key, queue.ready_count)
    content = content_frames(number, message.properties, message.body, connection.frame_max)
    connection.write(method_frame(number, method) + content)
    if not no_ack:
        channel.unacked.add(Delivered(tag, 1, None, queue, chunk.lane, chunk.first_offset, connection.listener.now))


HANDLERS: Handlers = {
    BasicQos: _qos,
    BasicConsume: _consume,
    BasicCancel: _cancel,
    BasicCancelOk: _cancel_ok,
    BasicGet: _get,
}
