"""What the scanner finds in a connection's bytes: the events, their limits, and the error that ends a connection.

Both twins and the front end speak in these words. An event is a tuple whose first item says which it is:

    (PUBLISH, channel, method_args, properties, records, count, body_bytes)
    (ACK, channel, first_tag, last_tag, multiple)
    (FRAME, frame_type, channel, payload)
"""

from __future__ import annotations

PUBLISH = 1
ACK = 2
FRAME = 3

PublishEvent = tuple[int, int, bytes, bytes, bytes, int, int]
AckEvent = tuple[int, int, int, int, bool]
FrameEvent = tuple[int, int, int, bytes]
Event = PublishEvent | AckEvent | FrameEvent

# A run ends before the message that would make it longer than this, so that its batch is at most 1 MiB; a single message
# may be longer than that.
RUN_BYTES = (1 << 20) - 61
RUN_MESSAGES = 4096
# How much of a message may lie in the receive buffer before the scanner hands it out frame by frame. The second bound is
# for a peer that cuts a body into crumbs: everything that waits is looked at again with each read.
WAIT_BYTES = 256 * 1024
WAIT_FRAMES = 64
# A longer body goes frame by frame, to whoever knows how long one may be: a record's length is an int32.
LARGEST_BODY = 1 << 30

FRAME_ERROR = 501

_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}


class FrameError(Exception):
    """The peer's bytes are no frames: the connection ends with this reply code and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


def frame_error(frame_type: int, payload: bytes, reason: str) -> FrameError:
    """A 501 in RabbitMQ's words."""
    return FrameError(FRAME_ERROR, f"{frame_snippet(frame_type, payload)}: {reason}")


def frame_too_large(frame_type: int, size: int, frame_max: int) -> FrameError:
    return frame_error(frame_type, b"", f"{{frame_too_large,{size},{frame_max - 8}}}")


def bad_frame_end(frame_type: int, payload: bytes, octet: int) -> FrameError:
    return frame_error(frame_type, payload, f"{{invalid_frame_end_marker,{octet}}}")


def frame_snippet(frame_type: int, payload: bytes) -> str:
    """A frame as RabbitMQ's errors show it: the first bytes, as Erlang writes a binary."""
    which = "all" if len(payload) <= 16 else "first 16"
    return f"type {frame_type}, {which} octets = {_erlang_binary(payload[:16])}"


def _erlang_binary(octets: bytes) -> str:
    if octets and all(32 <= octet <= 126 or octet >= 160 or octet in _ESCAPES for octet in octets):
        return '<<"' + "".join(_ESCAPES.get(octet, chr(octet)) for octet in octets) + '">>'
    return f"<<{','.join(map(str, octets))}>>"
