"""AMQP header values as the bytes of a Kafka header that people can read, and what is needed to get them back.

    text         UTF-8                          numbers      12, -3, 0.1, 12.50 (a decimal keeps its scale)
    bool         true, false                    timestamp    seconds since 1970
    bytes        as they are                    table, array JSON (bytes in it as text, or base64 if they are none)
    nothing      null

Most values are text and need nothing else: without a hint, bytes that are UTF-8 are text and others a byte array. For all
the rest a hint goes along: the letter of its type (see `tables`), and where letter and bytes do not give the same value
back, such as numbers of particular widths inside a table, also the value in AMQP's own form: `F:` and base64. A hint whose
bytes do not show what stands in the header was left behind when somebody changed the header: only its letter counts then,
and a letter that does not fit counts for nothing.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from math import isfinite
from struct import Struct

from headrace.record.amqp.tables import (
    Decimal,
    Float32,
    Int8,
    Int16,
    Int32,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    decode_table,
    encode_table,
)

_LETTER = 5  # where a value's letter stands in a table of one value without a name
_FLOAT32 = Struct(">f")
_MAX_DIGITS = 600  # of a number: a double needs 17 and an exponent, a decimal's scale goes to 255


def plain(content: bytes | None) -> str | bytes | None:
    """The value that these bytes are without a hint."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def show(value: object) -> tuple[bytes | None, str]:
    """The header's content for a value, and the hint that goes with it, or ""."""
    if type(value) is str:
        return value.encode(), ""
    if value is None:
        return None, ""
    packed = encode_table({"": value})
    letter = chr(packed[_LETTER])
    content = _content(value)
    if _same(plain(content), packed):
        return content, ""
    try:
        if _same(_READERS[letter](content), packed):
            return content, letter
    except (ValueError, OverflowError):
        pass
    return content, f"{letter}:{b64encode(packed[_LETTER:]).decode()}"


def read(content: bytes | None, hint: str) -> object:
    """The value that `show` made this of, or the nearest to it."""
    if not hint or content is None:
        return plain(content)
    if hint[1:2] == ":":
        try:
            packed = b64decode(hint[2:], validate=True)
            value = decode_table((len(packed) + 1).to_bytes(4, "big") + b"\0" + packed)[0][""]
            if _content(value) == content:
                return value
        except (ValueError, KeyError, OverflowError):
            pass
    try:
        value = _READERS[hint[0]](content)
        encode_table({"": value})
    except (ValueError, KeyError, OverflowError, TypeError):
        return plain(content)
    return value


def _same(value: object, packed: bytes) -> bool:
    """Whether this value, with its type, is the one that was packed; what compares equal may have another type."""
    try:
        return encode_table({"": value}) == packed
    except (ValueError, TypeError):
        return False


def _content(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict | list):
        return json.dumps(_jsonable(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
    return _scalar(value).encode("utf-8", "surrogateescape")


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        digits = str(value.value).zfill(value.scale + 1)
        return f"{digits[: -value.scale]}.{digits[-value.scale :]}" if value.scale else digits
    if isinstance(value, Float32):
        return _shortest(value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def _shortest(value: float) -> str:
    """The shortest digits that are this number in 32 bits."""
    for precision in range(6, 9):
        text = repr(float(f"{value:.{precision}g}"))
        try:
            if _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0] == value:
                return text
        except OverflowError:
            continue  # rounded up beyond the largest
    return repr(float(value))


def _jsonable(value: object) -> object:
    if isinstance(value, dict):
        return {name: _jsonable(inner) for name, inner in value.items()}
    if isinstance(value, Decimal):
        return _scalar(value)
    if isinstance(value, list):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, bytes):
        text = plain(value)
        return text if isinstance(text, str) else b64encode(value).decode()
    return value


def _number(content: bytes) -> str:
    if len(content) > _MAX_DIGITS:
        raise ValueError("too long for a number")
    return content.decode("ascii")


def _integer(kind: type[int]) -> Callable[[bytes], object]:
    return lambda content: kind(_number(content))


def _float(kind: type[float]) -> Callable[[bytes], object]:
    def reader(content: bytes) -> object:
        value = kind(_number(content))
        if not isfinite(value):
            raise ValueError("not a number")
        return value

    return reader


def _bool(content: bytes) -> object:
    if content not in (b"true", b"false"):
        raise ValueError("neither true nor false")
    return content == b"true"


def _decimal(content: bytes) -> object:
    whole, point, fraction = _number(content).partition(".")
    if not (whole + fraction).isdecimal() or (point and not fraction):
        raise ValueError("no decimal")
    value = Decimal(len(fraction), int(whole + fraction))
    if value.scale > 0xFF or value.value > 0xFFFF_FFFF:
        raise ValueError("a decimal that is too large")
    return value


def _json(kind: type[dict[str, object]] | type[list[object]]) -> Callable[[bytes], object]:
    def reader(content: bytes) -> object:
        try:
            value = json.loads(content.decode("utf-8", "surrogateescape"), parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("nested too deep") from None
        if not isinstance(value, kind):
            raise ValueError("not what the letter says")
        return value

    return reader


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


_READERS: dict[str, Callable[[bytes], object]] = {
    "t": _bool,
    "b": _integer(Int8),
    "B": _integer(UInt8),
    "s": _integer(Int16),
    "u": _integer(UInt16),
    "I": _integer(Int32),
    "i": _integer(UInt32),
    "l": _integer(int),
    "T": _integer(Timestamp),
    "f": _float(Float32),
    "d": _float(float),
    "D": _decimal,
    "S": LongString,
    "x": bytes,
    "F": _json(dict),
    "A": _json(list),
}
