"""Frames: a type, a channel, a length, the payload, and one octet that says the frame is over.

Here are the constants of framing and of the protocol's reply codes, and what makes frames of methods and contents. The
scanner that takes frames apart is in `headrace.record.amqp.twin`; deliveries, too, are made there.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from headrace.amqp.methods import Method, encode
from headrace.record.amqp.events import FrameError

__all__ = [
    "BASIC_CLASS",
    "EMPTY_FRAME_SIZE",
    "FRAME_END",
    "FRAME_MIN_SIZE",
    "HARD_ERRORS",
    "HEARTBEAT_FRAME",
    "PROTOCOL_HEADER",
    "PROTOCOL_HEADERS",
    "REPLY_NAMES",
    "SOFT_ERRORS",
    "ContentHeader",
    "FrameError",
    "FrameType",
    "ack_frame",
    "body_frames",
    "content_frames",
    "content_header",
    "frame",
    "method_frame",
    "reply_text",
]


class FrameType:
    """Plain integers: each frame is compared with them."""

    METHOD: Final = 1
    HEADER: Final = 2
    BODY: Final = 3
    HEARTBEAT: Final = 8


FRAME_END: Final = 0xCE
FRAME_MIN_SIZE: Final = 4096  # no peer may ask for less
EMPTY_FRAME_SIZE: Final = 8  # what a frame is longer than its payload: frame_max counts it
BASIC_CLASS: Final = 60

# What we answer to a header that we can't accept, and those that we do: RabbitMQ takes 0-9, which differs in nothing
# that matters, for 0-9-1.
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PROTOCOL_HEADERS: Final = frozenset({PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"})

REPLY_NAMES: Final[dict[int, str]] = {
    200: "OK",
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
# A soft error closes its channel, a hard one the connection.
SOFT_ERRORS: Final = frozenset({311, 312, 313, 403, 404, 405, 406})
HARD_ERRORS: Final = frozenset(REPLY_NAMES) - SOFT_ERRORS - {200}

_LONGEST_TEXT = 255

_FRAME = Struct(">BHI")
_CONTENT_HEADER = Struct(">HHQ")
_HEADER_FRAME = Struct(">BHIHHQ")
_ACK_FRAME = Struct(">BHIHHQBB")
_END = bytes([FRAME_END])

HEARTBEAT_FRAME: Final = _FRAME.pack(FrameType.HEARTBEAT, 0, 0) + _END


class ContentHeader(NamedTuple):
    class_id: int
    weight: int
    body_size: int
    properties: bytes


def frame(frame_type: int, channel: int, payload: bytes) -> bytes:
    return b"".join((_FRAME.pack(frame_type, channel, len(payload)), payload, _END))


def method_frame(channel: int, method: Method) -> bytes:
    payload = encode(method)
    return b"".join((_FRAME.pack(FrameType.METHOD, channel, len(payload)), payload, _END))


def ack_frame(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """`method_frame` of a BasicAck, which is what a server says most often."""
    return _ACK_FRAME.pack(FrameType.METHOD, channel, 13, BASIC_CLASS, 80, delivery_tag, multiple, FRAME_END)


def content_frames(channel: int, raw_properties: bytes, body: bytes, frame_max: int) -> bytes:
    """The header frame and the body frames, none longer than `frame_max`; zero is no limit. An empty body has none."""
    size = len(body)
    header = _HEADER_FRAME.pack(FrameType.HEADER, channel, 12 + len(raw_properties), BASIC_CLASS, 0, size)
    if not size:
        return b"".join((header, raw_properties, _END))
    if not frame_max or size <= frame_max - EMPTY_FRAME_SIZE:
        return b"".join((header, raw_properties, _END, _FRAME.pack(FrameType.BODY, channel, size), body, _END))
    return b"".join((header, raw_properties, _END, body_frames(channel, body, frame_max)))


def body_frames(channel: int, body: bytes, frame_max: int) -> bytes:
    """The body alone, cut to frames."""
    size = len(body)
    step = frame_max - EMPTY_FRAME_SIZE if frame_max else size
    view = memoryview(body)
    parts: list[bytes | memoryview] = []
    for start in range(0, size, step or 1):
        part = view[start : start + step]
        parts += (_FRAME.pack(FrameType.BODY, channel, len(part)), part, _END)
    return b"".join(parts)


def content_header(payload: bytes) -> ContentHeader | None:
    """What the payload of a header frame says; None if it is too short for one, which RabbitMQ answers as it does a
    frame of an unknown type."""
    try:
        class_id, weight, body_size = _CONTENT_HEADER.unpack_from(payload)
    except StructError:
        return None
    return ContentHeader(class_id, weight, body_size, payload[_CONTENT_HEADER.size :])


def reply_text(code: int, text: str) -> str:
    """What a close method says: the name of the code in front, cut where a short string ends."""
    name = REPLY_NAMES.get(code, "INTERNAL_ERROR")
    whole = f"{name} - {text}" if text else name
    encoded = whole.encode("utf-8", "replace")
    if len(encoded) <= _LONGEST_TEXT:
        return encoded.decode()
    return encoded[: _LONGEST_TEXT - 3].decode("utf-8", "ignore") + "..."
