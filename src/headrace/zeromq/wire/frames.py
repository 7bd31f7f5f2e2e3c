"""Events as ZeroMQ messages. Any ZeroMQ program in any language can send the first two forms and read all three.

    [value]                  the value alone
    [topic, value]           what PUB/SUB is used to: subscriptions match the beginning of the first frame
    [topic, value, meta]     an event with nothing left out; what Headrace sends itself

Of the third frame, numbers in network order:

    bytes      2   "HR"
    version    1   1
    flags      1   1: the event has no value (a tombstone; the second frame is empty)
                   2: it has no timestamp
                   4: partition and offset follow
    partition  4   where it stands in its topic, if flag 4 is set
    offset     8
    record         one record of Kafka's record batch v2 with the key, the headers and, as its timestamp delta, the timestamp in
                   ms since 1970; its value is null, its offset delta 0

What does not look like that is refused whole: a message of more frames, a meta frame that can't be read, a time before 1970, a
value frame that is not empty under flag 1. Bounds on sizes are the socket's (`sockets`), which closes the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from headrace.record import BatchError, Event, decode_records, encode_records
from headrace.record.batch import Writable
from headrace.record.event import Header

MAX_FRAMES = 3

_START = b"HR\x01"
_NO_VALUE, _NO_TIMESTAMP, _PLACED = 1, 2, 4
_PLACE = Struct(">IQ")
_PLACE_END = 4 + _PLACE.size


class BadMessage(ValueError):
    """Frames that are no event; the text says why."""


class Message(NamedTuple):
    """What was in the frames."""

    topic: bytes | None  # None: there was no such frame
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int | None
    partition: int | None
    offset: int | None

    @property
    def event(self) -> Event:
        return Event(self.key, self.value, self.headers, self.timestamp_ms)


def encode_meta(event: Writable, partition: int | None = None, offset: int | None = None) -> bytes:
    """The third frame."""
    time = event.timestamp_ms
    if time is not None and time < 0:
        raise ValueError("an event has no time before 1970")
    flags = (_NO_VALUE if event.value is None else 0) | (_NO_TIMESTAMP if time is None else 0)
    record = encode_records(((0, time or 0, event.key, None, event.headers),))
    if partition is None or offset is None:
        return b"%b%c%b" % (_START, flags, record)
    return b"%b%c%b%b" % (_START, flags | _PLACED, _PLACE.pack(partition, offset), record)


def encode_message(topic: bytes, event: Writable) -> tuple[bytes, bytes, bytes]:
    """An event as its three frames."""
    return topic, event.value or b"", encode_meta(event)


def decode_message(frames: Sequence[bytes]) -> Message:
    """Raises BadMessage."""
    count = len(frames)
    if count == 1:
        return Message(None, None, frames[0], (), None, None, None)
    if count == 2:
        return Message(frames[0], None, frames[1], (), None, None, None)
    if count != MAX_FRAMES:
        raise BadMessage(f"a message has 1 to {MAX_FRAMES} frames, not {count}")
    return _with_meta(frames[0], frames[1], frames[2])


def _with_meta(topic: bytes, value: bytes, meta: bytes) -> Message:
    if meta[:3] != _START:
        raise BadMessage("the third frame is not Headrace's")
    if len(meta) < 4:
        raise BadMessage("the third frame is cut off")
    flags = meta[3]
    if flags > 7:
        raise BadMessage("the third frame has flags that are not known")
    partition: int | None = None
    offset: int | None = None
    start = 4
    if flags & _PLACED:
        if len(meta) < _PLACE_END:
            raise BadMessage("the third frame is cut off")
        partition, offset = _PLACE.unpack_from(meta, 4)
        start = _PLACE_END
    try:
        ((_, time, key, no_value, headers),) = decode_records(meta[start:], 1)
    except BatchError as error:
        raise BadMessage(f"the third frame holds no record: {error}") from None
    if time < 0:
        raise BadMessage("a time before 1970")
    if no_value is not None:
        raise BadMessage("the record of the third frame has a value: that belongs into the second")
    if flags & _NO_VALUE:
        if value:
            raise BadMessage("an event without a value, and a value in the second frame")
        return Message(topic, key, None, headers, None if flags & _NO_TIMESTAMP else time, partition, offset)
    return Message(topic, key, value, headers, None if flags & _NO_TIMESTAMP else time, partition, offset)
