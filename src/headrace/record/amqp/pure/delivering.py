"""From records to frames: for each record of a batch a basic.deliver, its content header and its body frames.

Records of a batch mostly look like the one before, as in `scanning`: the same lengths, exchange and key. So what was read
around the offset delta, the body and the properties of one record, and written around the delivery tag, the properties and
the body of its message, is used for the next as long as it fits. A record of other lengths is parsed anew, but as long as
its key and its exchange come in the same bytes nothing has to be read in them.
"""

from __future__ import annotations

from struct import Struct

from headrace.record.pure.batches import HEADER_SIZE, Buffer
from headrace.record.varint import read_varint, read_varlong

_ENVELOPE = Struct(">BHI")  # frame type, channel, size of the payload
_CONTENT = Struct(">BHIHHQ")  # the same, then class, weight and body size
_TAG = Struct(">Q")
_END = b"\xce"
_DELIVER_METHOD = b"\x00\x3c\x00\x3c"
_EXCHANGE = b"amqp.exchange"
_PROPERTIES = b"amqp.properties"
_TWO_HEADERS = b"\x04\x1a" + _EXCHANGE  # as our own records begin their headers
_SECOND_HEADER = b"\x1e" + _PROPERTIES
_LONGEST_TEXT = 255
_AFTER_LAST_TAG = 1 << 64
_COMPRESSED_OR_CONTROL = 0x07 | 0x20
_MALFORMED = "malformed record"
_NOT_A_MESSAGE = "not the record of a message"


# Where a record has what a message needs: offset delta, value and properties (start and end of each), end of the record.
_Parsed = tuple[int, int, int, int, int, int, int]


def deliver(
    data: Buffer,
    position: int,
    count: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    channel: int,
    frame_max: int,
) -> tuple[bytes, int, int]:
    """The frames that deliver `count` records of the batch `data` from the one at `position` on, with delivery tags from
    `first_tag` on; the position after the last record; the bytes of their bodies. `frame_max` 0 is no limit; only bodies
    are split. Raises ValueError for what is no record of a message."""
    batch = data if type(data) is bytes else bytes(data)
    _check_range(batch, position, count)
    if batch[22] & _COMPRESSED_OR_CONTROL:
        raise ValueError("not a batch of messages")
    after_last = first_tag + count
    if len(consumer_tag) > _LONGEST_TEXT or first_tag < 0 or after_last > _AFTER_LAST_TAG or not 0 <= channel <= 0xFFFF:
        raise ValueError("no such consumer tag, delivery tag or channel")
    if frame_max and not 8 < frame_max <= 0xFFFF_FFFF:
        raise ValueError("no room for a payload")
    largest_piece = frame_max - 8 if frame_max else 0xFFFF_FFFF
    frames = _Frames(batch, channel, bytes((len(consumer_tag),)) + consumer_tag, redelivered)
    tag = first_tag
    try:
        while tag < after_last:
            position, tag = frames.add(position, tag, after_last, largest_piece)
    except IndexError:
        raise ValueError(_MALFORMED) from None
    return b"".join(frames.pieces), position, frames.body_bytes


def skip(data: Buffer, position: int, count: int) -> int:
    """The position after `count` records; ValueError if they are not there."""
    _check_range(data, position, count)
    size = len(data)
    try:
        for _ in range(count):
            length, position = _varint(data, position)
            if length < 0 or length > size - position:
                raise ValueError(_MALFORMED)
            position += length
    except IndexError:
        raise ValueError(_MALFORMED) from None
    return position


def _check_range(data: Buffer, position: int, count: int) -> None:
    if not HEADER_SIZE <= position <= len(data) or count < 0:
        raise ValueError("not a position in a batch")


class _Frames:
    """The frames of deliveries as they grow, and what the records so far had in common."""

    __slots__ = (
        "_batch",
        "_before_tag",
        "_channel",
        "_consumer_tag",
        "_exchange_part",
        "_key_part",
        "_redelivered",
        "_routing",
        "body_bytes",
        "pieces",
    )

    def __init__(self, batch: bytes, channel: int, consumer_tag: bytes, redelivered: bool) -> None:
        self.pieces: list[bytes] = []
        self.body_bytes = 0
        self._batch = batch
        self._channel = channel
        self._consumer_tag = consumer_tag
        self._redelivered = redelivered
        self._key_part = b""  # of the last record, with its length; then its headers up to the length of the properties
        self._exchange_part = b""
        self._before_tag = b""  # in the method frame
        self._routing = b""  # what comes after the tag in it

    def add(self, position: int, tag: int, after_last: int, largest_piece: int) -> tuple[int, int]:
        """Writes the message of the record at `position` and of those after it that look the same. Returns the position
        of the next record and the tag for it."""
        batch, channel = self._batch, self._channel
        parsed = self._parse(position)
        _, _, body_at, body_end, properties_at, properties_end, end = parsed
        body_size = body_end - body_at
        before_properties = self._routing + _CONTENT.pack(2, channel, 12 + properties_end - properties_at, 60, 0, body_size)
        properties = batch[properties_at:properties_end]
        self.pieces += (self._before_tag, _TAG.pack(tag), before_properties, properties)
        next_tag = tag + 1
        if 0 < body_size <= largest_piece:
            before_body = _END + _ENVELOPE.pack(3, channel, body_size)
            self.pieces += (before_body, batch[body_at:body_end], _END)
            if next_tag < after_last and properties_end == end and batch.startswith(batch[position : parsed[0]], end):
                end, next_tag = self._repeat(position, parsed, next_tag, after_last, before_properties, before_body)
        else:
            for at in range(body_at, body_end, largest_piece):
                upto = min(at + largest_piece, body_end)
                self.pieces += (_END, _ENVELOPE.pack(3, channel, upto - at), batch[at:upto])
            self.pieces.append(_END)
        self.body_bytes += body_size * (next_tag - tag)
        return end, next_tag

    def _repeat(
        self, position: int, like: _Parsed, tag: int, after_last: int, before_properties: bytes, before_body: bytes
    ) -> tuple[int, int]:
        """Takes the records after the one at `position` as long as they look like it."""
        batch, pieces, before_tag = self._batch, self.pieces, self._before_tag
        delta_at, delta_end, body_at, body_end, properties_at, _, end = like
        if delta_end - delta_at > 2:
            return end, tag
        wide = delta_end - delta_at == 2
        stem = batch[position:delta_at]
        middle = batch[delta_end:body_at]
        tail = batch[body_end:properties_at]
        size = end - position
        to_delta, to_middle, to_body = delta_at - position, delta_end - position, body_at - position
        to_tail, to_properties = body_end - position, properties_at - position
        tag_bytes = _TAG.pack
        last = len(batch) - size  # where a whole record may begin
        position = end
        while tag < after_last and position <= last and batch.startswith(stem, position):
            delta_at = position + to_delta
            if wide:
                if batch[delta_at] < 0x80 or batch[delta_at + 1] >= 0x80:
                    break
            elif batch[delta_at] >= 0x80:
                break
            if not batch.startswith(middle, position + to_middle) or not batch.startswith(tail, position + to_tail):
                break
            pieces += (
                before_tag,
                tag_bytes(tag),
                before_properties,
                batch[position + to_properties : position + size],
                before_body,
                batch[position + to_body : position + to_tail],
                _END,
            )
            position += size
            tag += 1
        return position, tag

    def _parse(self, position: int) -> _Parsed:
        """Finds the parts of a record; also the texts around its tag, unless they are those of the record before."""
        batch = self._batch
        length, position = _varint(batch, position)
        end = position + length
        if length < 0 or end > len(batch):
            raise ValueError(_MALFORMED)
        _, delta_at = read_varlong(batch, position + 1)
        _, delta_end = _varint(batch, delta_at)
        same = self._key_part
        if same and batch.startswith(same, delta_end):
            key_at = key_end = delta_end + len(same)
        else:
            same = b""
            key_at, key_end = _bytes_at(batch, delta_end, end)
        body_at, body_end = _bytes_at(batch, key_end, end)
        if same and batch.startswith(self._exchange_part, body_end):
            properties_at, properties_end = _bytes_at(batch, body_end + len(self._exchange_part), end)
            if properties_end == end:
                return delta_at, delta_end, body_at, body_end, properties_at, end, end
        if same:
            key_at, key_end = _bytes_at(batch, delta_end, end)
        exchange, properties = _own_headers(batch, body_end, end)
        self._route(batch[slice(*exchange)], batch[key_at:key_end])
        self._key_part = self._exchange_part = b""
        if batch.startswith(_TWO_HEADERS, body_end) and batch.startswith(_SECOND_HEADER, exchange[1]):
            self._key_part = batch[delta_end:key_end]
            self._exchange_part = batch[body_end : exchange[1] + len(_SECOND_HEADER)]
        return delta_at, delta_end, body_at, body_end, *properties, end

    def _route(self, exchange: bytes, key: bytes) -> None:
        if len(exchange) > _LONGEST_TEXT or len(key) > _LONGEST_TEXT:
            raise ValueError(_NOT_A_MESSAGE)
        routing = (bytes((bool(self._redelivered), len(exchange))), exchange, bytes((len(key),)), key, _END)
        self._routing = b"".join(routing)
        size = len(_DELIVER_METHOD) + len(self._consumer_tag) + 8 + len(self._routing) - 1
        self._before_tag = b"".join((_ENVELOPE.pack(1, self._channel, size), _DELIVER_METHOD, self._consumer_tag))


def _varint(data: Buffer, position: int) -> tuple[int, int]:
    """`read_varint`, faster for the short ones."""
    value = data[position]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        return (value & 0x7F | second << 7) >> 1 ^ -(value & 1), position + 2
    return read_varint(data, position)


def _bytes_at(batch: bytes, position: int, end: int) -> tuple[int, int]:
    """Where the bytes are whose length is at `position`. Null counts as empty."""
    length, position = _varint(batch, position)
    if length <= 0:
        return position, position
    if length > end - position:
        raise ValueError(_MALFORMED)
    return position, position + length


def _own_headers(batch: bytes, position: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the exchange and the properties are; the last ones, if there are several."""
    found: dict[bytes, tuple[int, int]] = {}
    count, position = read_varint(batch, position)
    if count < 0 or count > end - position:
        raise ValueError(_MALFORMED)
    for _ in range(count):
        name = _bytes_at(batch, position, end)
        content = _bytes_at(batch, name[1], end)
        position = content[1]
        found[batch[name[0] : name[1]]] = content
    if position != end:
        raise ValueError(_MALFORMED)
    if _EXCHANGE not in found or _PROPERTIES not in found:
        raise ValueError(_NOT_A_MESSAGE)
    return found[_EXCHANGE], found[_PROPERTIES]
