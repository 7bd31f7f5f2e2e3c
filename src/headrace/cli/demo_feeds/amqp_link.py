"""As much of AMQP 0-9-1 as the demo needs, over one blocking socket and one channel, with the server's own codec.

A connection asks for no heartbeats. What comes in is one frame at a time; a read that runs out of time leaves what has arrived
of a frame where it is, so that the next one goes on with it. A server that closes the connection or the channel is an AmqpError
with its own words.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from headrace.amqp.frames import PROTOCOL_HEADER, FrameType, content_frames, content_header, method_frame
from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    decode,
)

TIMEOUT_S = 10.0
FRAME_MAX = 131_072
_CHANNEL = 1
_HEAD_BYTES = 7
_CAPABLE = ("authentication_failure_close", "basic.nack", "consumer_cancel_notify", "publisher_confirms")

M = TypeVar("M", bound=Method)


class AmqpError(Exception):
    """The server refused, or went away; the text is one sentence."""


class Delivery(NamedTuple):
    tag: int
    routing_key: str
    body: bytes


class Link:
    """One connection with one channel. `name` is how the server shows it."""

    def __init__(self, address: str, name: str, *, user: str = "guest", password: str = "guest") -> None:
        host, _, port = address.rpartition(":")
        self._buffer = bytearray()
        self._published = 0  # since `confirm`: the number of the last message
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        try:
            self._socket.sendall(PROTOCOL_HEADER)
            self._expect(ConnectionStart)
            properties = {"product": "headrace demo", "connection_name": name, "capabilities": dict.fromkeys(_CAPABLE, True)}
            self._send(0, ConnectionStartOk(properties, "PLAIN", f"\0{user}\0{password}".encode(), "en_US"))
            self._expect(ConnectionTune)
            self._send(0, ConnectionTuneOk(_CHANNEL, FRAME_MAX, 0))
            self._send(0, ConnectionOpen("/"))
            self._expect(ConnectionOpenOk)
            self.call(ChannelOpen(), ChannelOpenOk)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """In good order if the server still listens."""
        try:
            self._send(0, ConnectionClose(200, "", 0, 0))
            while not isinstance(self._method()[1], ConnectionCloseOk):
                pass
        except (AmqpError, OSError):
            pass
        finally:
            self._socket.close()

    def call(self, method: Method, answer: type[M]) -> M:
        self._send(_CHANNEL, method)
        return self._expect(answer)

    # Publishing

    def confirm(self) -> None:
        self.call(ConfirmSelect(), ConfirmSelectOk)

    def publish(self, exchange: str, messages: Sequence[tuple[str, bytes, bytes]]) -> int:
        """Routing key, properties and body of each; how many the server has taken, once it has answered for all of them."""
        self._socket.sendall(
            b"".join(
                method_frame(_CHANNEL, BasicPublish(exchange, routing_key))
                + content_frames(_CHANNEL, properties, body, FRAME_MAX)
                for routing_key, properties, body in messages
            )
        )
        waiting = set(range(self._published + 1, self._published + len(messages) + 1))
        self._published += len(messages)
        taken = 0
        while waiting:
            _, method = self._method()
            if not isinstance(method, BasicAck | BasicNack):
                raise AmqpError(f"{type(method).__name__} in place of a confirmation")
            last = method.delivery_tag
            answered = {tag for tag in waiting if tag <= last} if method.multiple else waiting & {last}
            waiting -= answered
            taken += len(answered) if isinstance(method, BasicAck) else 0
        return taken

    # Consuming

    def consume(self, queue: str, tag: str, prefetch: int) -> None:
        self.call(BasicQos(0, prefetch), BasicQosOk)
        self.call(BasicConsume(queue, tag), BasicConsumeOk)

    def delivery(self, timeout_s: float) -> Delivery | None:
        """The next one, or None if the time is over."""
        self._socket.settimeout(timeout_s)
        try:
            self._fill(_HEAD_BYTES)
        except TimeoutError:
            return None
        finally:
            self._socket.settimeout(TIMEOUT_S)
        _, method = self._method()
        if not isinstance(method, BasicDeliver):
            raise AmqpError(f"{type(method).__name__} in place of a delivery")
        return Delivery(method.delivery_tag, method.routing_key, self._content())

    def ack(self, tag: int) -> None:
        self._send(_CHANNEL, BasicAck(tag, False))

    def reject(self, tag: int) -> None:
        """For good: a queue with a dead-letter exchange sends it there."""
        self._send(_CHANNEL, BasicReject(tag, False))

    # The wire

    def _send(self, channel: int, method: Method) -> None:
        self._socket.sendall(method_frame(channel, method))

    def _expect(self, kind: type[M]) -> M:
        _, method = self._method()
        if not isinstance(method, kind):
            raise AmqpError(f"{type(method).__name__} in place of {kind.__name__}")
        return method

    def _method(self) -> tuple[int, Method]:
        frame_type, channel, payload = self._frame()
        if frame_type != FrameType.METHOD:
            raise AmqpError(f"a frame of type {frame_type} in place of a method")
        method = decode(payload)
        if isinstance(method, ConnectionClose | ChannelClose):
            raise AmqpError(f"the server closed it: {method.reply_text}")
        return channel, method

    def _content(self) -> bytes:
        frame_type, _, payload = self._frame()
        header = content_header(payload) if frame_type == FrameType.HEADER else None
        if header is None:
            raise AmqpError("a delivery without its header")
        body = bytearray()
        while len(body) < header.body_size:
            frame_type, _, payload = self._frame()
            if frame_type != FrameType.BODY:
                raise AmqpError("a delivery without its body")
            body += payload
        return bytes(body)

    def _frame(self) -> tuple[int, int, bytes]:
        while True:
            self._fill(_HEAD_BYTES)
            frame_type, size = self._buffer[0], int.from_bytes(self._buffer[3:7], "big")
            channel = int.from_bytes(self._buffer[1:3], "big")
            if size > FRAME_MAX:
                raise AmqpError(f"a frame of {size} bytes")
            self._fill(_HEAD_BYTES + size + 1)
            payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + size])
            del self._buffer[: _HEAD_BYTES + size + 1]
            if frame_type != FrameType.HEARTBEAT:
                return frame_type, channel, payload

    def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            data = self._socket.recv(65_536)
            if not data:
                raise AmqpError("the server closed the connection")
            self._buffer += data
