"""The fourteen properties of a basic message: a word of flags, then the values of those that are there, in order.

A message keeps its properties as the bytes they came in (`raw`). Most of the broker wants one of them or none:
`delivery_mode`, `priority`, `expiration` and their like walk over the fields before theirs and decode only that one.
`decode_properties` gives all of them; `with_headers` and `without_field` change one and leave the rest as it was.

Bits 2 to 15 of the flags are the properties, the lowest two are ignored: RabbitMQ does not know a second word of flags.
Short strings need not be UTF-8 here; what is not survives as surrogate escapes. Everything raises `MalformedProperties`
for bytes that are cut short, the whole readers also for bytes that are left over or a table that can't be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import Any

from headrace.dataclass import dataclass
from headrace.record.amqp.tables import MalformedTable, Table, decode_table, encode_table

CONTENT_TYPE = 1 << 15
CONTENT_ENCODING = 1 << 14
HEADERS = 1 << 13
DELIVERY_MODE = 1 << 12
PRIORITY = 1 << 11
CORRELATION_ID = 1 << 10
REPLY_TO = 1 << 9
EXPIRATION = 1 << 8
MESSAGE_ID = 1 << 7
TIMESTAMP = 1 << 6
TYPE = 1 << 5
USER_ID = 1 << 4
APP_ID = 1 << 3
CLUSTER_ID = 1 << 2

TRANSIENT = 1
PERSISTENT = 2

NO_PROPERTIES = b"\0\0"

_IGNORED = 0x0003
_OCTETS = DELIVERY_MODE | PRIORITY
_UINT16 = Struct(">H")
_UINT32 = Struct(">I")
_UINT64 = Struct(">Q")


class MalformedProperties(ValueError):
    """These bytes are no properties of a message. RabbitMQ closes the connection with 541 and no more text."""


@dataclass(frozen=True, slots=True)
class Properties:
    """None is a property that is not there."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_FIELDS = tuple((1 << (15 - number), name) for number, name in enumerate(Properties.__slots__))


def property_flags(raw: bytes) -> int:
    """Which properties are there: an or of the constants above."""
    if len(raw) < 2:
        raise MalformedProperties("properties without flags")
    return ((raw[0] << 8) | raw[1]) & ~_IGNORED


def has_headers(raw: bytes) -> bool:
    return bool(property_flags(raw) & HEADERS)


def delivery_mode(raw: bytes) -> int | None:
    return _octet(raw, DELIVERY_MODE)


def is_persistent(raw: bytes) -> bool:
    return _octet(raw, DELIVERY_MODE) == PERSISTENT


def priority(raw: bytes) -> int | None:
    return _octet(raw, PRIORITY)


def correlation_id(raw: bytes) -> str | None:
    return _string(raw, CORRELATION_ID)


def reply_to(raw: bytes) -> str | None:
    return _string(raw, REPLY_TO)


def expiration(raw: bytes) -> str | None:
    return _string(raw, EXPIRATION)


def user_id(raw: bytes) -> str | None:
    return _string(raw, USER_ID)


def headers(raw: bytes) -> Table:
    """The header table; an empty one if there is none."""
    if not property_flags(raw) & HEADERS:
        return {}
    return _read_headers(raw, _find(raw, HEADERS))[0]


def decode_properties(raw: bytes) -> Properties:
    flags = property_flags(raw)
    if not flags and len(raw) == 2:
        return _NONE
    values: list[Any] = [None] * 14
    pos = 2
    while flags:
        bits = flags.bit_length()
        flag = 1 << (bits - 1)
        flags ^= flag
        value: object
        if flag == HEADERS:
            value, pos = _read_headers(raw, pos)
        else:
            end = _after(raw, pos, flag)
            if flag & _OCTETS:
                value = raw[pos]
            elif flag == TIMESTAMP:
                value = _UINT64.unpack_from(raw, pos)[0]
            else:
                value = raw[pos + 1 : end].decode("utf-8", "surrogateescape")
            pos = end
        values[16 - bits] = value
    if pos != len(raw):
        raise MalformedProperties("bytes after the last property")
    return Properties(*values)


def check_properties(raw: bytes) -> None:
    """That `decode_properties` would not fail, for less."""
    flags = property_flags(raw)
    pos = 2
    while flags:
        flag = 1 << (flags.bit_length() - 1)
        flags ^= flag
        pos = _read_headers(raw, pos)[1] if flag == HEADERS else _after(raw, pos, flag)
    if pos != len(raw):
        raise MalformedProperties("bytes after the last property")


def encode_properties(properties: Properties) -> bytes:
    """Raises `ValueError` for a value that does not fit its property."""
    flags = 0
    out = bytearray(2)
    try:
        for flag, name in _FIELDS:
            value = getattr(properties, name)
            if value is None:
                continue
            flags |= flag
            if flag == HEADERS:
                out += encode_table(value)
            elif flag & _OCTETS:
                out.append(value)
            elif flag == TIMESTAMP:
                out += _UINT64.pack(value)
            else:
                text = value.encode("utf-8", "surrogateescape")
                out.append(len(text))
                out += text
    except StructError as problem:
        raise ValueError(str(problem)) from None
    _UINT16.pack_into(out, 0, flags)
    return bytes(out)


def with_headers(raw: bytes, headers: Mapping[str, object] | None) -> bytes:
    """The same properties with these headers in place of those that were there; None takes them away."""
    flags = property_flags(raw)
    start = _find(raw, HEADERS)
    end = _after(raw, start, HEADERS) if flags & HEADERS else start
    if headers is None:
        return _UINT16.pack(flags & ~HEADERS) + raw[2:start] + raw[end:]
    return _UINT16.pack(flags | HEADERS) + raw[2:start] + encode_table(headers) + raw[end:]


def without_field(raw: bytes, flag: int) -> bytes:
    """The same properties without this one."""
    flags = property_flags(raw)
    if not flags & flag:
        return raw
    start = _find(raw, flag)
    return _UINT16.pack(flags & ~flag) + raw[2:start] + raw[_after(raw, start, flag) :]


def _find(raw: bytes, wanted: int) -> int:
    """Where the value of this property stands, or would stand."""
    # What comes before it are higher bits: flags of them, highest first.
    before = property_flags(raw) & ~(2 * wanted - 1)
    pos = 2
    while before:
        flag = 1 << (before.bit_length() - 1)
        pos = _after(raw, pos, flag)
        before ^= flag
    return pos


def _after(raw: bytes, pos: int, flag: int) -> int:
    """The position after the value of this property, which starts at `pos`."""
    try:
        if flag & _OCTETS:
            end = pos + 1
        elif flag == HEADERS:
            end = pos + 4 + int(_UINT32.unpack_from(raw, pos)[0])
        elif flag == TIMESTAMP:
            end = pos + 8
        else:
            end = pos + 1 + raw[pos]
    except (IndexError, StructError):
        raise MalformedProperties("properties that are cut short") from None
    if end > len(raw):
        raise MalformedProperties("properties that are cut short")
    return end


def _read_headers(raw: bytes, pos: int) -> tuple[Table, int]:
    try:
        return decode_table(raw, pos)
    except MalformedTable as problem:
        raise MalformedProperties(f"headers that can't be read: {problem}") from None


def _octet(raw: bytes, flag: int) -> int | None:
    flags = property_flags(raw)
    if not flags & flag:
        return None
    pos = 2 if flags < 2 * flag else _find(raw, flag)  # nothing stands before it, most often
    if pos >= len(raw):
        raise MalformedProperties("properties that are cut short")
    return raw[pos]


def _string(raw: bytes, flag: int) -> str | None:
    flags = property_flags(raw)
    if not flags & flag:
        return None
    pos = _find(raw, flag)
    return raw[pos + 1 : _after(raw, pos, flag)].decode("utf-8", "surrogateescape")


_NONE = Properties()
