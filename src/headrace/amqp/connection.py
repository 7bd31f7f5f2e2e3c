"""The socket shell of one AMQP connection: bytes in, events to its channels, frames out by its `outbox`.

All connections of a listener share one buffer: a read fills it, the scanner turns it into events, and what is left of an
unfinished frame or message is kept by the connection and put in front of the next read. Events are handled on the spot. When
one has to wait (for the disk), later ones are parked and handled in order afterwards (`parking`).

Bounds, and what happens there: what is left of a read is less than `WAIT_BYTES` and a frame (the scanner sees to that). The log
is backlogged, or publishers have to wait: a connection that publishes is not read (`gate`). `HANDSHAKE_S` for the handshake; a
peer that was told why it is closed has `CLOSING_S` to answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from headrace.amqp.channel import Channel
from headrace.amqp.dispatch import NO_METHOD, NONSENSE, Dispatch
from headrace.amqp.frames import PROTOCOL_HEADER, PROTOCOL_HEADERS, SOFT_ERRORS, method_frame
from headrace.amqp.frames import reply_text as text_of
from headrace.amqp.gate import Gate, Hold
from headrace.amqp.handshake import Handshake, SilentClose, State
from headrace.amqp.heartbeat import Heartbeat
from headrace.amqp.listener import READ_BYTES
from headrace.amqp.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
    MethodError,
)
from headrace.amqp.outbox import Outbox
from headrace.amqp.parking import Parking
from headrace.broker.queues.errors import AmqpRefusal, internal_error
from headrace.broker.vhosts.users import User
from headrace.log.errors import LogError
from headrace.record.amqp.events import WAIT_BYTES, Event, FrameError
from headrace.record.amqp.twin import scan

if TYPE_CHECKING:
    from headrace.amqp.listener import AmqpListener
    from headrace.broker.vhosts.vhost import VirtualHost

logger = logging.getLogger("headrace.amqp")

FIRST_FRAME_MAX = 8192  # before it has been negotiated
HANDSHAKE_S = 10.0
CLOSING_S = 10.0
LOST_S = 1.0
NOBODY = User("")


def read_buffer_bytes(frame_max: int) -> int:
    """Room for what one connection may have left of a read, and for the next read."""
    return WAIT_BYTES + frame_max + READ_BYTES + 64 * 1024


class AmqpConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: AmqpListener) -> None:
        self.listener = listener
        self.broker = listener.broker
        self.state = State.HEADER
        self.peer_host, self.name = "unknown", "unknown"
        self.user = NOBODY
        self.logged_in = False
        self.vhost: VirtualHost | None = None
        self.client_properties: Mapping[str, object] = {}
        self.capabilities: Mapping[str, object] = {}
        self.mechanism = ""
        self.frame_max = FIRST_FRAME_MAX
        self.channel_max = listener.channel_max
        self.channels: dict[int, Channel] = {}
        self.publishes = False
        self.received_bytes = 0
        self.connected_at_ms = listener.broker.clock.now_ms()
        self.gate = Gate()
        self.outbox = Outbox(listener.broker.vhosts.turns, lambda: self.gate.hold(Hold.OUTPUT))
        self.write = self.outbox.write
        self.heartbeat = Heartbeat(self.gate, self.outbox, listener.now)
        self.dispatch = Dispatch(self)
        self.parking = Parking(listener.broker.vhosts.turns, self.gate, self.dispatch.handle, self.fail)
        self.handshake = Handshake(self)
        self._transport: asyncio.Transport | None = None
        self._shared = listener.read_buffer
        self._read_view = listener.read_buffer[:READ_BYTES]
        self._rest = b""
        self._since = listener.now
        self._deadline = 0.0
        self._told_blocked = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.gate.open(self._transport)
        self.outbox.open(self._transport)
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if peer and here:
            self.peer_host = peer[0]
            self.name = f"{peer[0]}:{peer[1]} -> {here[0]}:{here[1]}"
        refused = self.listener.admit(self)
        if refused:
            self.drop(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.gate.close()
        self.outbox.close()
        self.listener.forget(self)
        self.end_channels()
        self.parking.close()
        self._rest = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        rest = self._rest
        if not rest:
            return self._read_view
        left = len(rest)
        self._shared[:left] = rest
        return self._shared[left : left + READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        end = len(self._rest) + nbytes
        self._rest = b""
        self.heartbeat.heard = True
        self.received_bytes += nbytes
        self._take(self._shared[:end])
        if self.listener.wakefulness is not None:
            self.listener.wakefulness.heard()
        if nbytes == READ_BYTES:  # the event loop would read it again and again before the others
            self.gate.hold(Hold.TURN)
            asyncio.get_running_loop().call_soon(self.gate.release, Hold.TURN)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outbox.pause()

    def resume_writing(self) -> None:
        self.gate.release(Hold.OUTPUT)
        self.outbox.resume()

    # --- in

    def _take(self, data: memoryview) -> None:
        if self.state == State.HEADER:
            if len(data) < len(PROTOCOL_HEADER):
                self._rest = bytes(data)
                return
            self._take_header(bytes(data[: len(PROTOCOL_HEADER)]))
            data = data[len(PROTOCOL_HEADER) :]
        if self.state == State.LOST:
            return
        events: list[Event] = []
        try:
            used = scan(data, 0, self.frame_max, events)
            if used < len(data):
                self._rest = bytes(data[used:])
        except FrameError as error:
            events.append((NONSENSE, 0, 0, error))  # type: ignore[arg-type]
        if self.parking.busy:
            self.parking.park(events, len(data))
        elif events:
            self.dispatch.handle(events)

    def _take_header(self, header: bytes) -> None:
        if header in PROTOCOL_HEADERS:
            self.handshake.start()
            return
        if self._transport is not None:
            self._transport.write(PROTOCOL_HEADER)
        if header.startswith(b"GET "):
            self.drop("an HTTP request on the AMQP port")
        elif header.startswith(b"\x16\x03"):
            self.drop("a TLS client on a port without TLS")
        else:
            self.drop(f"it did not start with the protocol header of AMQP 0-9-1 but with {header!r}")

    def opened(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.state = State.RUNNING

    # --- out

    def send(self, number: int, method: Method) -> None:
        self.write(method_frame(number, method))

    def hold_publisher(self) -> None:
        """It has published something, and publishers have to wait."""
        self.gate.hold(Hold.BLOCKED)
        if not self._told_blocked and self.capabilities.get("connection.blocked") is True:
            self._told_blocked = True
            self.send(0, ConnectionBlocked(self.listener.blocked_reason))

    def obey_block(self) -> None:
        """Publishers have to wait from now on, this one with the next that it publishes; or they may go on."""
        if self.listener.blocked_reason:
            for channel in self.channels.values():
                channel.targets.clear()
        else:
            if self._told_blocked:
                self._told_blocked = False
                self.send(0, ConnectionUnblocked())
            self.gate.release(Hold.BLOCKED)
            self.parking.unstall()

    # --- time

    def tick(self, now: float) -> None:
        if self.state == State.RUNNING:
            if self.heartbeat.is_lost(now):
                self.drop(f"missed heartbeats from client, timeout: {self.heartbeat.interval_s}s")
            elif self.outbox.is_stuck(now):
                self.listener.log_closed(self.name, "it reads nothing of what it is sent")
                self.abort()
            elif self.vhost is not None:
                self._look_around(self.vhost)
        elif self.state < State.RUNNING:
            if now - self._since > HANDSHAKE_S:
                self.drop(f"no complete handshake within {HANDSHAKE_S:.0f} s (state {self.state.name.lower()})")
        elif now > self._deadline:
            self.abort()

    def user_now(self) -> User:
        """With the rights he has by now; `user` follows them within a second."""
        return self.broker.vhosts.users.get(self.user.name) or self.user

    def _look_around(self, vhost: VirtualHost) -> None:
        """Whether what it lives on is still there."""
        vhosts = self.broker.vhosts
        user = vhosts.users.get(self.user.name)
        if vhosts.get(vhost.name) is not vhost:
            self.force_close(f"vhost '{vhost.name}' is deleted")
        elif user is None:
            self.force_close(f"user '{self.user.name}' is deleted")
        elif user is not self.user:
            self.user = user
            for channel in self.channels.values():
                channel.targets.clear()

    def look_for_timeouts(self, now: float) -> None:
        for number, channel in tuple(self.channels.items()):
            try:
                channel.look_for_timeouts(now)
            except AmqpRefusal as refusal:
                self.fail(number, NO_METHOD, refusal)

    # --- the end

    def fail(self, number: int, ids: tuple[int, int], error: Exception) -> None:
        """Something that was asked for can't be done: closes the channel or the connection, as the code demands."""
        if isinstance(error, MethodError):
            ids, error = (error.class_id, error.method_id), AmqpRefusal(error.code, error.text)
        elif isinstance(error, LogError):
            error = internal_error(str(error))
        elif not isinstance(error, (AmqpRefusal, SilentClose)):
            logger.exception("an error of ours on %s", self.name, exc_info=error)
            error = internal_error("")
        if self._transport is None or (self.state > State.RUNNING and not isinstance(error, SilentClose)):
            return
        if isinstance(error, SilentClose):
            self.listener.log_closed(self.name, str(error))
            if self.state != State.CLOSING:
                self.close_gently()
            return
        channel = self.channels.get(number)
        if error.code in SOFT_ERRORS and channel is not None and channel.open:
            self.listener.log_closed(f"channel {number} of {self.name}", text_of(error.code, error.text))
            channel.fail(error, ids)
        elif self.state >= State.TUNING:
            self.close_with(error, ids)
        else:
            self.drop(text_of(error.code, error.text))

    def close_with(self, refusal: AmqpRefusal, ids: tuple[int, int] = NO_METHOD) -> None:
        """Tells the peer why, and waits for its answer."""
        self.listener.log_closed(self.name, text_of(refusal.code, refusal.text))
        self.end_channels()
        self.say_why(refusal, ids)

    def say_why(self, refusal: AmqpRefusal, ids: tuple[int, int] = NO_METHOD) -> None:
        self.send(0, ConnectionClose(refusal.code, text_of(refusal.code, refusal.text), *ids))
        self.outbox.flush()
        self.state = State.CLOSING
        self._deadline = self.listener.now + CLOSING_S
        self.gate.release(self.gate.holds)

    def lose_sense(self, error: FrameError) -> None:
        """Its bytes are no frames: it is told so, and nothing that follows is looked at."""
        self.fail(0, NO_METHOD, AmqpRefusal(error.code, error.text))
        self.state = State.LOST
        self._deadline = self.listener.now + LOST_S

    def force_close(self, text: str) -> None:
        """An operator or the server itself wants it closed."""
        if self.state == State.RUNNING:
            self.close_with(AmqpRefusal(320, text))
        else:
            self.abort()

    def shut_down(self) -> None:
        """The server stops."""
        if self.state == State.RUNNING:
            self.end_channels()
            self.say_why(AmqpRefusal(320, "broker forced connection closure with reason 'shutdown'"))
        self.close_gently()

    def end_channels(self) -> None:
        channels = tuple(self.channels.values())
        self.channels.clear()  # the same dictionary, which others hold
        vhost, self.vhost = self.vhost, None
        try:
            for channel in channels:
                channel.end()
            if vhost is not None:
                vhost.owner_gone(self)
        except (AmqpRefusal, LogError) as error:  # what its queues could not write down shows after the next start
            logger.error("%s has ended, and not everything of it could be written down: %s", self.name, error)

    def drop(self, why: str) -> None:
        """One line in the log, and the connection is closed."""
        self.listener.traffic.connections_refused += 1
        self.listener.log_closed(self.name, why)
        self.close_gently()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def say_goodbye(self) -> None:
        """The peer has said that it goes, and closes the socket itself. What it still sends from other threads is read and
        thrown away until then: a socket closed over it would be reset, and the end of the stream right behind the answer
        makes clients that read it first take the goodbye for a failure. One that stays is hung up on after `CLOSING_S`."""
        self.end_channels()
        self.send(0, ConnectionCloseOk())
        self.outbox.flush()
        self.state = State.LOST
        self._deadline = self.listener.now + CLOSING_S
        self.gate.release(self.gate.holds)

    def close_gently(self) -> None:
        """Sends what is written, then closes."""
        if self._transport is not None:
            self.state = State.LOST
            self._deadline = self.listener.now + LOST_S
            self.outbox.flush()
            self._transport.close()
