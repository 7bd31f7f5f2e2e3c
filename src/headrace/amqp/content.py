"""A message that comes frame by frame: large ones, and those that others are interleaved with.

Bounds: a body above `MAX_MESSAGE_BYTES` closes the channel before any of it is kept; one above `LARGEST_BYTES` is taken for a
broken frame. All unfinished messages of a listener together stay below `UNFINISHED_BYTES`; whoever needs more is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.amqp.frames import BASIC_CLASS, FrameType, content_header
from headrace.amqp.methods import BasicPublish
from headrace.broker.queues.errors import frame_error, precondition_failed, resource_error, unexpected_frame
from headrace.record.amqp.message import Message

if TYPE_CHECKING:
    from headrace.amqp.listener import AmqpListener

MAX_MESSAGE_BYTES = 128 * 1024 * 1024  # RabbitMQ's max_message_size
LARGEST_BYTES = 512 * 1024 * 1024
UNFINISHED_BYTES = 512 * 1024 * 1024


class Content:
    def __init__(self, method: BasicPublish, listener: AmqpListener) -> None:
        self.method = method
        self._listener = listener
        self._properties: bytes | None = None
        self._missing = 0
        self._kept = 0
        self._parts: list[bytes] = []

    def add(self, frame_type: int, payload: bytes) -> Message | None:
        """The message when this was its last frame."""
        if self._properties is None:
            self._begin(frame_type, payload)
        else:
            self._body(frame_type, payload)
        if self._missing or self._properties is None:
            return None
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.drop()
        return Message(self.method.exchange, self.method.routing_key, self._properties, body)

    def _begin(self, frame_type: int, payload: bytes) -> None:
        header = content_header(payload) if frame_type == FrameType.HEADER else None
        if header is None:
            raise unexpected_frame(f"expected content header for class {BASIC_CLASS}, got non content header frame instead")
        if header.class_id != BASIC_CLASS:
            got = f"got one for class {header.class_id} instead"
            raise unexpected_frame(f"expected content header for class {BASIC_CLASS}, {got}")
        size = header.body_size
        if size > LARGEST_BYTES:
            raise frame_error(f"content body size {size} exceeds maximum allowed size {LARGEST_BYTES}")
        if size > MAX_MESSAGE_BYTES:
            raise precondition_failed(f"message size {size} is larger than configured max size {MAX_MESSAGE_BYTES}")
        self._properties, self._missing = header.properties, size

    def _body(self, frame_type: int, payload: bytes) -> None:
        if frame_type != FrameType.BODY:
            raise unexpected_frame("expected content body, got non content body frame instead")
        size = len(payload)
        if size > self._missing:
            raise frame_error("content body frame exceeds remaining content size")
        if self._listener.unfinished_bytes + size > UNFINISHED_BYTES:
            raise resource_error("too many large messages are being received")
        self._listener.unfinished_bytes += size
        self._kept += size
        self._missing -= size
        if size:
            self._parts.append(payload)

    def drop(self) -> None:
        self._listener.unfinished_bytes -= self._kept
        self._kept = 0
