"""Field tables and arrays, the way RabbitMQ reads and writes them (its type letters differ from the 0-9-1 text).

    t bool          b int8     s int16    I int32    l L int64     f float32   D decimal      S long string   F table
    V nothing       B uint8    u uint16   i uint32   T timestamp   d float64   x byte array   A array

A table becomes a plain dict, an array a plain list. What Python has one type for and AMQP several keeps its letter in
a subclass, so that a table that is read and written again comes out as it came in: `int` is a signed 64, its subclasses
below are the other widths; `str` is a long string, and one that is not UTF-8 becomes a `LongString`; `bytes` is a byte
array; `float` is a double. All of them compare by value, as their Python types do.

Two things are not kept, as RabbitMQ does not keep them: `L` is written as `l`, and a bool other than 0 as 1. Of a key
that comes twice the last value counts. Keys that are not UTF-8 survive as surrogate escapes. Not a number and the
infinities are refused: RabbitMQ can't read them either.

The size of a table is bounded by the frame it came in; its nesting by `MAX_DEPTH`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

Table = dict[str, object]

MAX_DEPTH = 64

_UINT32 = Struct(">I")
_INT64 = Struct(">q")
_UINT64 = Struct(">Q")
_DECIMAL = Struct(">BI")
_FLOAT32 = Struct(">f")
_FLOAT64 = Struct(">d")


class MalformedTable(ValueError):
    """These bytes are no field table."""


class Int8(int):
    __slots__ = ()


class UInt8(int):
    __slots__ = ()


class Int16(int):
    __slots__ = ()


class UInt16(int):
    __slots__ = ()


class Int32(int):
    __slots__ = ()


class UInt32(int):
    __slots__ = ()


class Timestamp(int):
    """Seconds since 1970, unsigned."""

    __slots__ = ()


class Float32(float):
    __slots__ = ()


class LongString(bytes):
    """A long string that is not UTF-8."""

    __slots__ = ()


class Decimal(NamedTuple):
    """`value` divided by ten to the power of `scale`; both unsigned."""

    scale: int
    value: int


def decode_table(buf: bytes, pos: int = 0) -> tuple[Table, int]:
    """The table at `pos`, its length first, and the position after it."""
    try:
        end = pos + 4 + _UINT32.unpack_from(buf, pos)[0]
        if end == pos + 4:
            return {}, end
        if end > len(buf):
            raise MalformedTable("a table that is cut short")
        return _read_table(buf, pos + 4, end, 1), end
    except (StructError, IndexError):
        raise MalformedTable("a table that is cut short") from None


def encode_table(table: Mapping[str, object]) -> bytes:
    """With its length in front. Raises `TypeError` for what no letter fits and `ValueError` for what does not fit its
    letter: both are mistakes of ours, for what was read can always be written."""
    out = bytearray()
    _write_table(out, table, 1)
    return bytes(out)


def _read_table(buf: bytes, pos: int, end: int, depth: int) -> Table:
    table: Table = {}
    while pos < end:
        start = pos + 1
        pos = start + buf[pos]
        if pos >= end:
            raise MalformedTable("a field name that is cut short")
        name = buf[start:pos].decode("utf-8", "surrogateescape")
        table[name], pos = _read_value(buf, pos, end, depth)
    return table


def _read_array(buf: bytes, pos: int, end: int, depth: int) -> list[object]:
    array: list[object] = []
    while pos < end:
        value, pos = _read_value(buf, pos, end, depth)
        array.append(value)
    return array


def _read_value(buf: bytes, pos: int, end: int, depth: int) -> tuple[object, int]:
    """The value whose letter stands at `pos`."""
    letter = buf[pos]
    pos += 1
    sized = _SIZED.get(letter)
    if sized is not None:
        start = pos + 4
        pos = start + _UINT32.unpack_from(buf, pos)[0]
        if pos > end:
            raise MalformedTable("a field value that is cut short")
        return sized(buf, start, pos, depth), pos
    fixed = _FIXED.get(letter)
    if fixed is None:
        raise MalformedTable(f"a field of the unknown type {letter:#04x}")
    layout, make = fixed
    after = pos + layout.size
    if after > end:
        raise MalformedTable("a field value that is cut short")
    return make(*layout.unpack_from(buf, pos)), after


def _long_string(buf: bytes, start: int, end: int, depth: int) -> str | LongString:
    content = buf[start:end]
    try:
        return content.decode()
    except UnicodeDecodeError:
        return LongString(content)


def _byte_array(buf: bytes, start: int, end: int, depth: int) -> bytes:
    return buf[start:end]


def _inner_table(buf: bytes, start: int, end: int, depth: int) -> Table:
    return _read_table(buf, start, end, _deeper(depth))


def _inner_array(buf: bytes, start: int, end: int, depth: int) -> list[object]:
    return _read_array(buf, start, end, _deeper(depth))


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise MalformedTable(f"a table nested more than {MAX_DEPTH} deep")
    return depth + 1


def _finite(value: float) -> float:
    if not isfinite(value):
        raise MalformedTable("a field that is not a number")
    return value


def _finite32(value: float) -> Float32:
    return Float32(_finite(value))


def _nothing() -> None:
    return None


_SIZED: dict[int, Callable[[bytes, int, int, int], object]] = {
    ord("S"): _long_string,
    ord("x"): _byte_array,
    ord("F"): _inner_table,
    ord("A"): _inner_array,
}
_FIXED: dict[int, tuple[Struct, Callable[..., object]]] = {
    ord("t"): (Struct(">B"), bool),
    ord("b"): (Struct(">b"), Int8),
    ord("B"): (Struct(">B"), UInt8),
    ord("s"): (Struct(">h"), Int16),
    ord("u"): (Struct(">H"), UInt16),
    ord("I"): (Struct(">i"), Int32),
    ord("i"): (_UINT32, UInt32),
    ord("l"): (_INT64, int),
    ord("L"): (_INT64, int),
    ord("T"): (_UINT64, Timestamp),
    ord("f"): (_FLOAT32, _finite32),
    ord("d"): (_FLOAT64, _finite),
    ord("D"): (_DECIMAL, Decimal),
    ord("V"): (Struct(">"), _nothing),
}


def _write_table(out: bytearray, table: Mapping[str, object], depth: int) -> None:
    start = len(out)
    out += b"\0\0\0\0"
    for name, value in table.items():
        key = name.encode("utf-8", "surrogateescape")
        if len(key) > 255:
            raise ValueError("a field name longer than 255 bytes")
        out.append(len(key))
        out += key
        _write_value(out, value, depth)
    _UINT32.pack_into(out, start, len(out) - start - 4)


def _write_array(out: bytearray, array: Sequence[object], depth: int) -> None:
    start = len(out)
    out += b"\0\0\0\0"
    for value in array:
        _write_value(out, value, depth)
    _UINT32.pack_into(out, start, len(out) - start - 4)


def _write_value(out: bytearray, value: object, depth: int) -> None:
    kind = type(value)
    layout = _LAYOUTS.get(kind)
    if layout is not None:
        letter, packing = layout
        try:
            packed = packing.pack(value)
        except (StructError, OverflowError):
            raise ValueError(f"{value!r} does not fit the field type {chr(letter)}") from None
        out.append(letter)
        out += packed
    elif isinstance(value, str):
        _write_bytes(out, b"S", value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, LongString):
        _write_bytes(out, b"S", value)
    elif isinstance(value, bytes | bytearray):
        _write_bytes(out, b"x", value)
    elif value is None:
        out += b"V"
    elif isinstance(value, Mapping):
        out += b"F"
        _write_table(out, value, _deeper(depth))
    elif isinstance(value, Decimal):
        out += b"D"
        out += _DECIMAL.pack(*value)
    elif isinstance(value, list | tuple):
        out += b"A"
        _write_array(out, value, _deeper(depth))
    elif isinstance(value, int):  # an enum of ours
        _write_value(out, int(value), depth)
    else:
        raise TypeError(f"no field type fits a {kind.__name__}")


def _write_bytes(out: bytearray, letter: bytes, content: bytes | bytearray) -> None:
    out += letter
    out += _UINT32.pack(len(content))
    out += content


_LAYOUTS: dict[type, tuple[int, Struct]] = {
    bool: (ord("t"), Struct(">?")),
    int: (ord("l"), _INT64),
    Int8: (ord("b"), Struct(">b")),
    UInt8: (ord("B"), Struct(">B")),
    Int16: (ord("s"), Struct(">h")),
    UInt16: (ord("u"), Struct(">H")),
    Int32: (ord("I"), Struct(">i")),
    UInt32: (ord("i"), _UINT32),
    Timestamp: (ord("T"), _UINT64),
    Float32: (ord("f"), _FLOAT32),
    float: (ord("d"), _FLOAT64),
}
