"""What a connection's events lead to: each finds its channel, and whatever goes wrong closes the channel or the connection.

Three kinds of events come from the scanner (`headrace.record.amqp.events`): runs of publishes, runs of acks, and single
frames. Channel 0 is the connection's own. At the end of a receive buffer the publishes in it are confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.amqp.channel import Channel
from headrace.amqp.frames import FrameType
from headrace.amqp.gate import Hold
from headrace.amqp.handshake import State
from headrace.amqp.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    decode,
)
from headrace.amqp.publishing import MustWait, publish_run
from headrace.amqp.settling import acknowledge
from headrace.broker.queues.errors import channel_error, frame_error, not_allowed, unexpected_frame
from headrace.record.amqp.events import ACK, FRAME, PUBLISH, Event, frame_snippet

if TYPE_CHECKING:
    from headrace.amqp.connection import AmqpConnection

NONSENSE = 0  # an event of our own: from here on the peer's bytes are no frames
NO_METHOD = (0, 0)
_PUBLISH, _ACK = (60, 40), (60, 80)


class Dispatch:
    def __init__(self, connection: AmqpConnection) -> None:
        self.to_confirm: list[Channel] = []  # channels with something to confirm from this receive buffer
        self._connection = connection
        self._news: list[tuple[Channel, Method]] = []  # what nobody asked for, to be sent after the answers
        self._handling = False

    def handle(self, events: list[Event]) -> None:
        connection = self._connection
        self._handling = True
        channels = connection.channels
        for index, event in enumerate(events):
            kind, number = event[0], event[1]
            try:
                if kind == PUBLISH:
                    channel = channels.get(number)
                    if channel is not None and channel.open:
                        publish_run(channel, event)  # type: ignore[arg-type]
                    elif channel is None:
                        self._no_channel(number)
                    continue
                if kind == ACK:
                    channel = channels.get(number)
                    if channel is not None and channel.open:
                        acknowledge(channel, event[2], event[3], event[4])  # type: ignore[misc,arg-type]
                    elif channel is None:
                        self._no_channel(number)
                    continue
                if kind == FRAME:
                    number = cast(int, event[2])
                    self._frame(event[1], number, event[3])  # type: ignore[arg-type]
                else:
                    connection.lose_sense(event[3])  # type: ignore[arg-type]
            except MustWait as held:
                connection.parking.stall([held.event, *events[index + 1 :]])
                break
            except Exception as error:
                connection.fail(number, self._ids(event, number), error)
            if connection.parking.busy:
                connection.parking.put_first(events[index + 1 :])
                break
            if connection.state == State.LOST or not connection.is_open:
                break
        self._handling = False
        if self._news and not connection.parking.busy:
            self._tell()
        if self.to_confirm:
            to_confirm, self.to_confirm = self.to_confirm, []
            for publisher in to_confirm:
                publisher.settle_confirms()
        if connection.publishes and connection.broker.log.backlogged:
            connection.gate.hold(Hold.BACKLOG)
            connection.broker.log.after_sync(lambda error: connection.gate.release(Hold.BACKLOG))

    def _ids(self, event: Event, number: int) -> tuple[int, int]:
        """Class and method that an event belongs to."""
        if event[0] == ACK:
            return _ACK
        channel = self._connection.channels.get(number)
        if event[0] == PUBLISH or (channel is not None and channel.content is not None):
            return _PUBLISH
        payload = event[3]
        if isinstance(payload, bytes) and event[1] == FrameType.METHOD and len(payload) >= 4:
            return int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
        return NO_METHOD

    def _no_channel(self, number: int) -> None:
        """Of a publish or an ack."""
        connection = self._connection
        if connection.state == State.RUNNING:
            raise channel_error("expected 'channel.open'")
        if connection.state < State.RUNNING:
            raise unexpected_frame(f"a method on channel {number} in state {connection.state.name.lower()}")

    def _frame(self, frame_type: int, number: int, payload: bytes) -> None:
        connection = self._connection
        if not _well_formed(frame_type, payload):
            raise frame_error(f"{frame_snippet(frame_type, payload)}: unknown_frame")
        if number == 0 and frame_type == FrameType.METHOD:
            self._method(decode(payload))
        elif number == 0 and frame_type == FrameType.HEARTBEAT:
            pass
        elif number == 0 or connection.state < State.RUNNING or frame_type == FrameType.HEARTBEAT:
            raise unexpected_frame(frame_snippet(frame_type, payload))
        elif connection.state == State.RUNNING:
            channel = connection.channels.get(number) or self._new_channel(number, frame_type, payload)
            channel.frame(frame_type, payload)

    def _new_channel(self, number: int, frame_type: int, payload: bytes) -> Channel:
        connection = self._connection
        if frame_type != FrameType.METHOD:
            raise unexpected_frame("expected method frame, got non method frame instead")
        if len(connection.channels) >= connection.channel_max:
            opened = f"number of channels opened ({len(connection.channels)})"
            raise not_allowed(f"{opened} has reached the negotiated channel_max ({connection.channel_max})")
        if payload[:4] != ChannelOpen.prefix:
            decode(payload)
            raise channel_error("expected 'channel.open'")
        assert connection.vhost is not None
        channel = connection.channels[number] = Channel(connection, connection.vhost, number)
        return channel

    def _method(self, method: Method) -> None:
        """On channel 0."""
        connection = self._connection
        if isinstance(method, ConnectionClose) and connection.state >= State.RUNNING:
            connection.say_goodbye()
        elif connection.state == State.CLOSING:
            if isinstance(method, ConnectionCloseOk):
                connection.close_gently()
        elif connection.state == State.RUNNING and isinstance(method, ConnectionUpdateSecret):
            connection.send(0, ConnectionUpdateSecretOk())
        else:
            connection.handshake.handle(method)

    def tell(self, channel: Channel, method: Method) -> None:
        """Something has happened that nobody asked for. If it comes of what this connection asked for itself, the answer to
        that goes first, as it does in RabbitMQ."""
        self._news.append((channel, method))
        if not self._handling and not self._connection.parking.busy:
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, []
        for channel, method in news:
            if channel.open:
                channel.send(method)


def _well_formed(frame_type: int, payload: bytes) -> bool:
    if frame_type == FrameType.METHOD:
        return len(payload) >= 4
    if frame_type == FrameType.HEADER:
        return len(payload) >= 12
    return frame_type == FrameType.BODY or (frame_type == FrameType.HEARTBEAT and not payload)
