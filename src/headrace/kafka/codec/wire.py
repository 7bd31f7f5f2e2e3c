"""The parts of Kafka's wire format that generated code calls rather than spells out, and the codec's errors.

Lengths in flexible versions (KIP-482) are unsigned varints, one more than the length, so that zero can mean null.
Readers take a position and return the new one. They may raise IndexError at the end of the buffer; `schema.decode`
makes that a MalformedMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Packing
from typing import Any, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_STRING_BYTES = 0x7FFF
"""Kafka's limit for every string, whichever way its length is written."""


class MalformedMessage(ValueError):
    """The bytes are not this message: too short, a length that lies, null where null is not allowed."""


class UnencodableMessage(ValueError):
    """A message holds what its version can't carry: an integer out of range, None where null is not allowed."""


class UnsupportedVersion(ValueError):
    """The message has no such version."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes."""
    first = buf[pos]
    if first < 0x80:
        return first, pos + 1
    return read_long_uvarint(buf, pos + 1, first)


def read_long_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose `first` byte, already read, says that there is more."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise MalformedMessage("a varint of more than five bytes")


def read_long_string_length(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    value, pos = read_long_uvarint(buf, pos, first)
    if value > MAX_STRING_BYTES + 1:
        raise MalformedMessage(f"a string of {value - 1} bytes, more than {MAX_STRING_BYTES}")
    return value, pos


def skip_tagged_fields(buf: Buffer, pos: int, end: int) -> int:
    """Passes over a tagged-field section; returns the position after it."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise MalformedMessage("a tagged field goes beyond the end of the message")
    return pos


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_long_string_length(out: bytearray, length: int) -> None:
    if length > MAX_STRING_BYTES:
        raise UnencodableMessage(f"a string of {length} bytes, more than {MAX_STRING_BYTES}")
    write_uvarint(out, length + 1)


def write_tagged_fields(out: bytearray, tagged: Sequence[tuple[int, bytearray]]) -> None:
    write_uvarint(out, len(tagged))
    for tag, value in tagged:
        write_uvarint(out, tag)
        write_uvarint(out, len(value))
        out += value


class Packer(dict[int, Callable[..., bytes]]):
    """Packs the length and the items of an array of fixed-size items in one call, by the number of items.

    Indexed by that number; short arrays are by far the most common, so what packs them is kept.
    """

    KEPT = 128

    def __init__(self, prefix: str, item: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._item = item

    def __missing__(self, count: int) -> Callable[..., bytes]:
        pack = Packing(f">{self._prefix}{count}{self._item}").pack
        if count < self.KEPT:
            self[count] = pack
        return pack


class Unpacker(dict[int, Callable[..., tuple[Any, ...]]]):
    """Unpacks the items of an array of fixed-size items in one call, by the number of items."""

    KEPT = 128

    def __init__(self, item: str) -> None:
        super().__init__()
        self._item = item

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        unpack = Packing(f">{count}{self._item}").unpack_from
        if count < self.KEPT:
            self[count] = unpack
        return unpack
