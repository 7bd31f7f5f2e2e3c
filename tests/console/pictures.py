"""Makes a screenshot small enough for the repository: at most 256 colours, which is what a page of flat colours and text needs.

Reads what Chromium writes (8 bits a channel, RGB, not interlaced) and nothing else; takes a second or two for a picture.
"""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from struct import pack, unpack_from

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 256
_CHANNELS = 3

Pixel = tuple[int, int, int]


def shrink(path: Path) -> None:
    width, rows = _decode(path.read_bytes())
    pixels = [[tuple(row[at : at + _CHANNELS]) for at in range(0, width * _CHANNELS, _CHANNELS)] for row in rows]
    counted = Counter(pixel for row in pixels for pixel in row)
    palette = [colour for colour, _ in counted.most_common(_COLOURS)]
    number: dict[tuple[int, ...], int] = {colour: index for index, colour in enumerate(palette)}
    for colour in counted:
        if colour not in number:
            number[colour] = min(range(len(palette)), key=lambda index: _distance(palette[index], colour))
    data = b"".join(b"\0" + bytes([number[pixel] for pixel in row]) for row in pixels)
    header = pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", bytes(part for one in palette for part in one)), (b"IDAT", zlib.compress(data, 9)))
    path.write_bytes(_SIGNATURE + b"".join(_chunk(kind, content) for kind, content in (*chunks, (b"IEND", b""))))


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))


def _decode(data: bytes) -> tuple[int, list[bytearray]]:
    """The width, and the bytes of each row."""
    position, packed, width = len(_SIGNATURE), b"", 0
    while position < len(data):
        (size,) = unpack_from(">I", data, position)
        kind, content = data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        position += 12 + size
        if kind == b"IHDR":
            width, _, depth, colours, _, _, interlaced = unpack_from(">IIBBBBB", content)
            assert (depth, colours, interlaced) == (8, 2, 0), "not what Chromium writes"
        elif kind == b"IDAT":
            packed += content
    raw, step = zlib.decompress(packed), width * _CHANNELS + 1
    rows: list[bytearray] = []
    above = bytearray(step - 1)
    for begin in range(0, len(raw), step):
        above = _unfiltered(raw[begin], bytearray(raw[begin + 1 : begin + step]), above)
        rows.append(above)
    return width, rows


def _unfiltered(kind: int, row: bytearray, above: bytearray) -> bytearray:
    """PNG, section 9.2."""
    for at in range(len(row)):
        left = row[at - _CHANNELS] if at >= _CHANNELS else 0
        corner = above[at - _CHANNELS] if at >= _CHANNELS else 0
        up = above[at]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        elif kind == 4:
            near = left + up - corner
            guess = min((left, up, corner), key=lambda each: abs(near - each))
        else:
            return row
        row[at] = (row[at] + guess) & 0xFF
    return row
