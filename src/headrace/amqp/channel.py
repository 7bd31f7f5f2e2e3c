"""One channel: what its client has declared last, publishes, consumes and has not acknowledged, and who does what it asks for.

A channel opens, works, and closes. When the server closes it, it stays in its place, deaf, until the client has said that it
knows (channel.close-ok); so frames that crossed with the close find something that ignores them. What the methods do stands
in `declaring`, `publishing`, `consuming`, `settling` and `transactions`; their tables come together here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headrace.amqp import consuming, declaring, publishing, settling, transactions
from headrace.amqp.content import Content
from headrace.amqp.frames import FrameType
from headrace.amqp.frames import reply_text as text_of
from headrace.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancelOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
    decode,
)
from headrace.amqp.unacked import Unacked
from headrace.broker.queues.errors import (
    AmqpRefusal,
    channel_error,
    command_invalid,
    not_allowed,
    not_implemented,
    unexpected_frame,
)
from headrace.broker.vhosts.users import MAX_CHANNELS

if TYPE_CHECKING:
    from headrace.amqp.confirms import Confirms
    from headrace.amqp.connection import AmqpConnection
    from headrace.amqp.consuming import ChannelConsumer, ReplyConsumer
    from headrace.amqp.transactions import Transaction
    from headrace.broker.vhosts.vhost import VirtualHost

Handlers = dict[type[Method], Callable[["Channel", Any], None]]


class Channel:
    def __init__(self, connection: AmqpConnection, vhost: VirtualHost, number: int) -> None:
        self.connection = connection
        self.vhost = vhost
        self.number = number
        self.open = False
        self._closing = False  # the server has closed it, and the client does not know yet
        self.content: Content | None = None  # a message that comes frame by frame
        self.last_queue = ""
        # publishing
        self.published = 0
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.targets: dict[bytes, publishing.Target] = {}
        self.sound_properties = b"\0\0"
        self.reply_name: str | None = None  # of its consumer of direct reply-to
        # consuming
        self.acknowledged = 0
        self.next_tag = 1
        self.unacked = Unacked()
        self.consumers: dict[str, ChannelConsumer] = {}
        self.reply_consumer: ReplyConsumer | None = None
        self.consumer_prefetch = 0  # for consumers to come
        self.prefetch = 0  # for all of them together
        self.consumed = 0  # deliveries to consumers that are not settled; those of basic.get do not count

    def __repr__(self) -> str:
        return f"<channel {self.number} of {self.connection.name}>"

    # --- in

    def frame(self, frame_type: int, payload: bytes) -> None:
        if self._closing:
            self._while_closing(frame_type, payload)
        elif self.content is not None:
            message = self.content.add(frame_type, payload)
            if message is not None:
                try:
                    publishing.publish_message(self, self.content.method, message)
                except publishing.MustWait:
                    self.content = None
                    raise
                self.content = None
        elif frame_type != FrameType.METHOD:
            raise unexpected_frame("expected method frame, got non method frame instead")
        else:
            method = decode(payload)
            if isinstance(method, BasicPublish):
                self.content = Content(method, self.connection.listener)
            else:
                self.handle(method)

    def _while_closing(self, frame_type: int, payload: bytes) -> None:
        if frame_type != FrameType.METHOD:
            return
        method = decode(payload)
        if isinstance(method, ChannelOpen):  # RabbitMQ ignores the rest, but whoever waits for this answer would wait forever
            raise channel_error("second 'channel.open' seen")
        if isinstance(method, ChannelCloseOk):
            self.connection.channels.pop(self.number, None)
        elif isinstance(method, ChannelClose):
            self.send(ChannelCloseOk())

    def handle(self, method: Method) -> None:
        handler = HANDLERS.get(type(method))
        if handler is None:
            raise command_invalid("unimplemented method")
        name = TIMED.get(type(method))
        if name is None:
            handler(self, method)
            return
        began_s = perf_counter()
        handler(self, method)
        self._time(name, began_s)

    def _time(self, name: str, began_s: float) -> None:
        """Up to its answer, which may have to wait for the disk."""
        times, parking = self.connection.listener.traffic.requests[name], self.connection.parking
        if parking.busy:
            parking.when_done(lambda: times.add(perf_counter() - began_s))
        else:
            times.add(perf_counter() - began_s)

    # --- out

    def send(self, method: Method) -> None:
        self.connection.send(self.number, method)

    def answer(self, method: Method, answer: Method, *, nowait: bool, durable: bool) -> None:
        """Now, or once what was done is durable; nobody waits for that when no answer is wanted."""

        def send() -> None:
            if not nowait and self.open:
                self.send(answer)

        if durable and not nowait:
            self.connection.parking.after_sync(self.number, method.ids, send)
        else:
            send()

    def settle_confirms(self) -> None:
        if self.confirms is not None and self.open:
            self.confirms.settle()

    def look_for_timeouts(self, now: float) -> None:
        if self.unacked.count:
            settling.look_for_timeouts(self, now)

    # --- its end

    def fail(self, refusal: AmqpRefusal, ids: tuple[int, int]) -> None:
        """The server closes it."""
        self.end()
        self._closing = True
        self.send(ChannelClose(refusal.code, text_of(refusal.code, refusal.text), *ids))

    def end(self) -> None:
        """Gives back what it has not settled and leaves its queues. What is safe is confirmed before."""
        if not self.open:
            return
        self.settle_confirms()
        self.open = False
        self.vhost.counted.published += self.published
        self.connection.listener.delivered += self.next_tag - 1
        if self.content is not None:
            self.content.drop()
            self.content = None
        if self.transaction is not None:
            self.transaction.roll_back(self)
        settling.give_back(self, self.unacked.take_all())
        consuming.leave_all(self)


def _open(channel: Channel, method: ChannelOpen) -> None:
    if channel.open:
        raise channel_error("second 'channel.open' seen")
    _check_user_limit(channel.connection)
    channel.open = True
    channel.send(ChannelOpenOk())


def _check_user_limit(connection: AmqpConnection) -> None:
    """One more than a user may have ends the connection, as it does there."""
    user = connection.user_now()
    limit = user.limit(MAX_CHANNELS)
    if limit is None:
        return
    mine = (each for each in connection.listener.connections if each.user.name == user.name)
    if sum(channel.open for each in mine for channel in each.channels.values()) >= limit:
        text = f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of {limit}"
        raise not_allowed(text)


def _close(channel: Channel, method: ChannelClose) -> None:
    channel.end()
    channel.connection.channels.pop(channel.number, None)
    channel.send(ChannelCloseOk())


def _flow(channel: Channel, method: ChannelFlow) -> None:
    if not method.active:
        raise not_implemented("active=false")
    channel.send(ChannelFlowOk(True))


def _access(channel: Channel, method: AccessRequest) -> None:
    channel.send(AccessRequestOk(1))


HANDLERS: Handlers = {
    ChannelOpen: _open,
    ChannelClose: _close,
    ChannelFlow: _flow,
    AccessRequest: _access,
    **declaring.HANDLERS,
    **publishing.HANDLERS,
    **consuming.HANDLERS,
    **settling.HANDLERS,
    **transactions.HANDLERS,
}
# What a client asks for and waits for, by the name that the specification has for it: QueueDeclare is queue.declare.
TIMED = {
    method: re.sub("([a-z])([A-Z])", r"\1.\2", method.__name__, count=1).lower()
    for method in (*declaring.HANDLERS, *consuming.HANDLERS, *transactions.HANDLERS)
    if method is not BasicCancelOk
}
