"""Variable-length integers as Kafka writes them: base 128, low group first, signed ones zigzag.

A varint holds 32 bits in at most five bytes, a varlong 64 bits in at most ten. One that goes on for longer is an error;
bits beyond the width are dropped, as in Kafka's own `ByteUtils`. Readers return (value, next position) and raise
`ValueError` for one that is too long and `IndexError` for one that is cut short.
"""

from __future__ import annotations

Readable = bytes | bytearray | memoryview

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF


def read_unsigned_varint(buf: Readable, pos: int) -> tuple[int, int]:
    value = buf[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK_32, pos
    raise ValueError("a varint longer than five bytes")


def read_varint(buf: Readable, pos: int) -> tuple[int, int]:
    value, pos = read_unsigned_varint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(buf: Readable, pos: int) -> tuple[int, int]:
    value = buf[pos]
    pos += 1
    if value >= 0x80:
        value &= 0x7F
        for shift in range(7, 70, 7):
            byte = buf[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= _MASK_64
                break
        else:
            raise ValueError("a varlong longer than ten bytes")
    return (value >> 1) ^ -(value & 1), pos


def write_unsigned_varint(out: bytearray, value: int) -> None:
    if not 0 <= value <= _MASK_32:
        raise OverflowError("does not fit an unsigned varint")
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_varint(out: bytearray, value: int) -> None:
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise OverflowError("does not fit a varint")
    write_unsigned_varint(out, ((value << 1) ^ (value >> 31)) & _MASK_32)


def write_varlong(out: bytearray, value: int) -> None:
    if not -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        raise OverflowError("does not fit a varlong")
    rest = ((value << 1) ^ (value >> 63)) & _MASK_64
    while rest >= 0x80:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
