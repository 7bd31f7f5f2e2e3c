"""From a connection's bytes to events: one pass that turns publishes into runs of records and acks into ranges.

Most messages look like the one before: the same method frame, properties that differ at most in one text, a body of the
same size. So after each message the scanner keeps what the next one would have to begin with (the `stem`: method frame,
content header and the properties up to their last text) and what stands between properties and body (the `link`); if both
fit, nothing has to be parsed. Everything else takes the long way through `_content` and `_Run.add`, which prepare the
pieces for the next.

Whatever is not a whole and proper message is handed out frame by frame: the errors in it belong to those who know the
channel. Only `scan` itself raises, and only for bytes that are no frames; the events before them are in `out`.
"""

from __future__ import annotations

from struct import Struct

from headrace.record.amqp.events import (
    ACK,
    FRAME,
    LARGEST_BODY,
    PUBLISH,
    RUN_BYTES,
    RUN_MESSAGES,
    WAIT_BYTES,
    WAIT_FRAMES,
    Event,
    bad_frame_end,
    frame_too_large,
)
from headrace.record.varint import write_varint

_FRAME_END = 0xCE
_ENVELOPE = Struct(">BHI")  # frame type, channel, size of the payload
_CONTENT = Struct(">BHIHHQH")  # the same, then class, weight, body size and the flags that begin the properties
_ACK_FRAME = Struct(">QBB")  # tag, bits, frame end
_BASIC = 60
_PUBLISH_METHOD = b"\x00\x3c\x00\x28"
_ACK_METHOD = b"\x00\x3c\x00\x50"
_ACK_SIZE = 13

# Properties in the order of their flags, bit 15 first: a text is 0, a number its size, the table of headers -1. With one of
# the `_DECISIVE` a message is treated by its properties, and only messages with the very same ones share a run; their form
# is checked by whoever decodes the first.
_SIZES = (0, 0, -1, 1, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0)
_DECISIVE = 1 << 13 | 1 << 11 | 1 << 9 | 1 << 8 | 1 << 4  # headers, priority, reply-to, expiration, user-id
_UNUSED = 0b11
_DELIVERY_MODE = 1 << 12
_TRANSIENT = 1
_PERSISTENT = 2

_INCOMPLETE = 0
_FOREIGN = -1


def _long_varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


_VARINTS = tuple(_long_varint(value) for value in range(RUN_MESSAGES))
_TWO_HEADERS = _VARINTS[2] + _VARINTS[len(b"amqp.exchange")] + b"amqp.exchange"
_PROPERTIES_HEADER = _VARINTS[len(b"amqp.properties")] + b"amqp.properties"


def _varint(value: int) -> bytes:
    return _VARINTS[value] if value < RUN_MESSAGES else _long_varint(value)


def scan(buffer: bytes | bytearray | memoryview, start: int, frame_max: int, out: list[Event]) -> int:
    """Appends the events of the whole frames in `buffer` from `start` on; returns where the first byte is that waits for
    more. `frame_max` 0 is no limit. Raises FrameError (501) for a frame that is too large or does not end as it should."""
    data = buffer if type(buffer) is bytes else bytes(buffer)
    end = len(data)
    if not 0 <= start <= end:
        raise ValueError("the start is outside the buffer")
    limit = frame_max or 0xFFFF_FFFF  # RabbitMQ too forgives those who forget the eight bytes around a payload
    position = start
    run: _Run | None = None
    while True:
        if run is not None:
            position = run.repeat(data, position, end, limit)
        if end - position < 7:
            break
        frame_type, channel, size = _ENVELOPE.unpack_from(data, position)
        frame_end = position + 7 + size  # of its payload; one octet follows
        if size > limit or (frame_end < end and data[frame_end] != _FRAME_END):
            if run is not None:
                out.append(run.event())
            if size > limit:
                raise frame_too_large(frame_type, size, frame_max)
            raise bad_frame_end(frame_type, data[position + 7 : frame_end], data[frame_end])
        if frame_end >= end:
            break
        method = data[position + 7 : position + 11] if frame_type == 1 and channel else b""
        if method == _PUBLISH_METHOD:
            frame = data[position : frame_end + 1]
            if run is None or run.method != frame:
                if run is not None:
                    out.append(run.event())
                run = _run_of(channel, frame)
            if run is not None:
                flags, properties, body, after = _content(data, frame_end + 1, end, channel, limit)
                if after == _INCOMPLETE:
                    if end - position < WAIT_BYTES:
                        break
                elif after > 0 and (treatment := run.treatment(flags, properties)) is not None:
                    if not run.add(treatment, flags, properties, body):
                        out.append(run.event())
                        run = run.another()
                        run.add(treatment, flags, properties, body)
                    position = after
                    continue
        if run is not None:
            if run.count:
                out.append(run.event())
            run = None
        if method == _ACK_METHOD and size == _ACK_SIZE:
            position = _acks(data, position, end, channel, out)
            continue
        out.append((FRAME, frame_type, channel, data[position + 7 : frame_end]))
        position = frame_end + 1
    if run is not None and run.count:
        out.append(run.event())
    return position


def _acks(data: bytes, position: int, end: int, channel: int, out: list[Event]) -> int:
    """One event for the ack at `position` and those after it that go on counting."""
    same = data[position : position + 11]
    first, bits, _ = _ACK_FRAME.unpack_from(data, position + 11)
    position += 21
    last = first
    if not bits & 1:
        while end - position >= 21 and data.startswith(same, position):
            tag, bits_here, frame_end = _ACK_FRAME.unpack_from(data, position + 11)
            if tag != last + 1 or bits_here & 1 or frame_end != _FRAME_END:
                break
            last = tag
            position += 21
    out.append((ACK, channel, first, last, bool(bits & 1)))
    return position


def _content(data: bytes, position: int, end: int, channel: int, limit: int) -> tuple[int, bytes, bytes, int]:
    """The content whose header frame should begin at `position`: property flags, properties, body and the position after
    it; that is _INCOMPLETE if more bytes may complete it and _FOREIGN if they won't, or shouldn't be waited for."""
    if end - position < 7:
        return 0, b"", b"", _INCOMPLETE
    frame_type, here, size = _ENVELOPE.unpack_from(data, position)
    if frame_type != 2 or here != channel or not 14 <= size <= limit:
        return 0, b"", b"", _FOREIGN
    header_end = position + 7 + size
    if header_end >= end:
        return 0, b"", b"", _INCOMPLETE
    _, _, _, class_id, weight, body_size, flags = _CONTENT.unpack_from(data, position)
    if data[header_end] != _FRAME_END or class_id != _BASIC or weight or body_size > LARGEST_BODY:
        return 0, b"", b"", _FOREIGN
    properties = data[position + 19 : header_end]
    position = header_end + 1
    left = body_size
    pieces: list[bytes] = []
    while left:
        if end - position >= 7:
            frame_type, here, size = _ENVELOPE.unpack_from(data, position)
            if frame_type != 3 or here != channel or size > limit or size > left:
                return 0, b"", b"", _FOREIGN
            body_end = position + 7 + size
            if body_end < end:
                if data[body_end] != _FRAME_END:
                    return 0, b"", b"", _FOREIGN
                pieces.append(data[position + 7 : body_end])
                left -= size
                position = body_end + 1
                continue
        hopeless = body_size >= WAIT_BYTES or len(pieces) > WAIT_FRAMES
        return 0, b"", b"", _FOREIGN if hopeless else _INCOMPLETE
    return flags, properties, pieces[0] if len(pieces) == 1 else b"".join(pieces), position


def _plain_properties(flags: int, properties: bytes) -> tuple[bool, int] | None:
    """Properties without a table: whether they say persistent, and the length of the stem that settles their form: who
    begins so and is as long is as well-formed and as persistent. None if they are malformed or of an unknown mode."""
    position = stem = 2
    persistent = False
    size = len(properties)
    bit = 1 << 15
    for width in _SIZES:
        if flags & bit:
            if width:
                position += width
                if bit == _DELIVERY_MODE and position <= size:
                    mode = properties[position - 1]
                    if mode != _TRANSIENT and mode != _PERSISTENT:
                        return None
                    persistent = mode == _PERSISTENT
                    stem = position
            else:
                if position >= size:
                    return None
                stem = position + 1
                position = stem + properties[position]
        bit >>= 1
    return (persistent, stem) if position == size else None


# What the messages of a run have in common (the properties themselves if they are decisive, else whether they say
# persistent), and the length of the stem of the properties.
_Treatment = tuple[bytes | bool, int]


def _run_of(channel: int, method: bytes) -> _Run | None:
    """An empty run for what this basic.publish announces; None if its arguments are malformed."""
    arguments = method[11:-1]
    size = len(arguments)
    if size < 5:
        return None
    key_at = 3 + arguments[2]
    if key_at >= size or key_at + 1 + arguments[key_at] + 1 != size:
        return None
    key = _varint(arguments[key_at]) + arguments[key_at + 1 : -1]
    exchange = b"".join((_TWO_HEADERS, _varint(arguments[2]), arguments[3:key_at], _PROPERTIES_HEADER))
    return _Run(channel, method, arguments, key, exchange)


class _Run:
    """A run that grows, as the pieces of its records, and what the next message must look like to be taken as it is."""

    __slots__ = (
        "_arguments",
        "_before_body",
        "_before_properties",
        "_body_size",
        "_exchange",
        "_head",
        "_key",
        "_pieces",
        "_properties",
        "_record_size",
        "_shared",
        "_size",
        "_stem",
        "_stem_size",
        "body_bytes",
        "channel",
        "count",
        "first_properties",
        "method",
    )

    def __init__(self, channel: int, method: bytes, arguments: bytes, key: bytes, exchange: bytes) -> None:
        self.channel = channel
        self.method = method
        self.count = 0
        self.body_bytes = 0
        self._arguments = arguments
        self._key = key  # the parts of a record with the routing key and with the exchange
        self._exchange = exchange
        self._pieces: list[bytes] = []
        self._size = 0
        self._properties = b""  # of the last message

    def another(self) -> _Run:
        return _Run(self.channel, self.method, self._arguments, self._key, self._exchange)

    def event(self) -> Event:
        records = b"".join(self._pieces)
        return (PUBLISH, self.channel, self._arguments, self.first_properties, records, self.count, self.body_bytes)

    def treatment(self, flags: int, properties: bytes) -> _Treatment | None:
        if properties == self._properties:
            return self._shared, self._stem_size
        if flags & _UNUSED:
            return None
        if flags & _DECISIVE:
            return properties, len(properties)
        return _plain_properties(flags, properties)

    def add(self, treatment: _Treatment, flags: int, properties: bytes, body: bytes) -> bool:
        """Takes the message in unless it does not fit or belongs to another run; prepares for one like it."""
        shared, stem_size = treatment
        count = self.count
        body_size, properties_size = len(body), len(properties)
        before_body = self._key + _varint(body_size)
        before_properties = self._exchange + _varint(properties_size)
        delta = _varint(count)
        inside = 2 + len(delta) + len(before_body) + body_size + len(before_properties) + properties_size
        head = _varint(inside)
        record_size = len(head) + inside
        if not count:
            self._shared = shared
            self.first_properties = properties
        elif self._shared != shared or count >= RUN_MESSAGES or self._size + record_size > RUN_BYTES:
            return False
        head += b"\x00\x00"
        self._pieces += (head, delta, before_body, body, before_properties, properties)
        self._size += record_size
        self.body_bytes += body_size
        self.count = count + 1
        self._head = head
        self._before_body = before_body
        self._before_properties = before_properties
        self._record_size = record_size
        self._body_size = body_size
        self._properties = properties
        self._stem_size = stem_size
        header = _CONTENT.pack(2, self.channel, 12 + properties_size, _BASIC, 0, body_size, flags)
        self._stem = self.method + header + properties[2:stem_size]
        return True

    def repeat(self, data: bytes, position: int, end: int, limit: int) -> int:
        """Takes messages in that look like the last one, as long as they come; returns the position after them."""
        stem = self._stem
        body_size = self._body_size
        first = count = self.count
        # The offset delta 64 is the first that needs a second byte; the long way works out the new lengths.
        if count == 64 or not data.startswith(stem, position) or not 0 < body_size <= limit:
            return position
        most = min(64 if count < 64 else RUN_MESSAGES, count + (RUN_BYTES - self._size) // self._record_size)
        properties_at = len(self.method) + 19
        link = b"\xce" + _ENVELOPE.pack(3, self.channel, body_size)
        link_size = len(link)
        to_end = properties_at + len(self._properties) + link_size + body_size
        head, before_body, before_properties = self._head, self._before_body, self._before_properties
        pieces = self._pieces
        while count < most and data.startswith(stem, position):
            body_end = position + to_end
            link_at = body_end - body_size - link_size
            if body_end >= end or data[body_end] != _FRAME_END or not data.startswith(link, link_at):
                break
            pieces += (
                head,
                _VARINTS[count],
                before_body,
                data[link_at + link_size : body_end],
                before_properties,
                data[position + properties_at : link_at],
            )
            count += 1
            position = body_end + 1
        self.count = count
        self._size += (count - first) * self._record_size
        self.body_bytes += (count - first) * body_size
        return position
