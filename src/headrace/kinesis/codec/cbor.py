"""CBOR (RFC 8949), as much of it as the Kinesis API uses: maps with texts as keys, lists, texts, byte strings, numbers,
booleans, null and tag 1 for timestamps; of definite and indefinite length. Other tags are read as what they tag.

Written here because a general decoder does more than is wise with a stranger's bytes: big numbers, decimals with exponents,
shared references and patterns are refused by not being known. Bounds: `MAX_DEPTH` for nesting, `MAX_ITEMS` for all items of a
body. No length is believed before the bytes are there.

A timestamp is decoded to `Moment`. AWS CBOR counts it in milliseconds, RPC v2 in seconds; programs get this wrong, so a number
that would be the year 5000 or later in seconds is milliseconds, and one below it seconds.
"""

from __future__ import annotations

import struct
from typing import Any

from headrace.kinesis.codec.encoding import Moment

MAX_DEPTH = 16
MAX_ITEMS = 20_000
_SECONDS_BELOW = 95_617_584_000  # the year 5000
_TIMESTAMP = 1
_BYTES, _TEXT, _LIST, _MAP = 2, 3, 4, 5
_BREAK = object()


class NotCbor(ValueError):
    """These bytes are not what a body may be."""


def decode(body: bytes) -> Any:
    """Raises NotCbor."""
    reader = _Reader(body)
    value = reader.item(0)
    if value is _BREAK or reader.position != len(body):
        raise NotCbor("more than one value, or less")
    return value


class _Reader:
    __slots__ = ("body", "items", "position")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.position = 0
        self.items = 0

    def item(self, depth: int) -> Any:
        self.items += 1
        if self.items > MAX_ITEMS or depth > MAX_DEPTH:
            raise NotCbor("too many values, or too deep")
        first = self._take(1)[0]
        major, extra = first >> 5, first & 31
        if major == 7:
            return self._simple(extra)
        if extra == 31:
            return self._indefinite(major, depth)
        if extra > 27:
            raise NotCbor("a reserved length")
        number = extra if extra < 24 else int.from_bytes(self._take(1 << (extra - 24)), "big")
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == _BYTES:
            return self._take(number)
        if major == _TEXT:
            return self._text(self._take(number))
        if major == _LIST:
            return self._list(number, depth)
        if major == _MAP:
            return self._map(number, depth)
        return self._tagged(number, depth)

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.body):
            raise NotCbor("the body ends too early")
        taken = self.body[self.position : end]
        self.position = end
        return taken

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise NotCbor("a text that is not UTF-8") from error

    def _list(self, count: int, depth: int) -> list[Any]:
        if count > len(self.body) - self.position:  # each has a byte at least
            raise NotCbor("the body ends too early")
        return [self._whole(depth) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        if count > len(self.body) - self.position:
            raise NotCbor("the body ends too early")
        return {self._key(depth): self._whole(depth) for _ in range(count)}

    def _whole(self, depth: int) -> Any:
        value = self.item(depth + 1)
        if value is _BREAK:
            raise NotCbor("a break in the wrong place")
        return value

    def _key(self, depth: int) -> str:
        key = self._whole(depth)
        if not isinstance(key, str):
            raise NotCbor("a key that is not a text")
        return key

    def _indefinite(self, major: int, depth: int) -> Any:
        if major == _MAP:
            found: dict[str, Any] = {}
            while (key := self.item(depth + 1)) is not _BREAK:
                if not isinstance(key, str):
                    raise NotCbor("a key that is not a text")
                found[key] = self._whole(depth)
            return found
        if major == _LIST:
            parts: list[Any] = []
            while (part := self.item(depth + 1)) is not _BREAK:
                parts.append(part)
            return parts
        if major in (_BYTES, _TEXT):
            return self._joined(major, depth)
        raise NotCbor("an indefinite length in the wrong place")

    def _joined(self, major: int, depth: int) -> bytes | str:
        """A byte string or a text in pieces, each of which is whole."""
        pieces: list[Any] = []
        while (first := self._take(1)[0]) != 0xFF:
            if first >> 5 != major or first & 31 == 31:
                raise NotCbor("a piece of another kind")
            self.position -= 1
            pieces.append(self.item(depth + 1))
        return b"".join(pieces) if major == _BYTES else "".join(pieces)

    def _tagged(self, tag: int, depth: int) -> Any:
        value = self._whole(depth)
        if tag != _TIMESTAMP:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e15:
            raise NotCbor("a timestamp that is none")
        return Moment(round(value * 1000) if abs(value) < _SECONDS_BELOW else round(value))

    def _simple(self, extra: int) -> Any:
        if extra == 20:
            return False
        if extra == 21:
            return True
        if extra in (22, 23):
            return None
        if extra == 25:
            return struct.unpack(">e", self._take(2))[0]
        if extra == 26:
            return struct.unpack(">f", self._take(4))[0]
        if extra == 27:
            return struct.unpack(">d", self._take(8))[0]
        if extra == 31:
            return _BREAK
        raise NotCbor("a value of an unknown kind")


def encode(value: Any, *, timestamps_in_ms: bool) -> bytes:
    pieces: list[bytes] = []
    _write(value, pieces, timestamps_in_ms)
    return b"".join(pieces)


def _write(value: Any, pieces: list[bytes], in_ms: bool) -> None:
    if isinstance(value, str):
        data = value.encode()
        pieces += (head(_TEXT, len(data)), data)
    elif isinstance(value, bool):
        pieces.append(b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        pieces.append(head(0, value) if value >= 0 else head(1, -1 - value))
    elif isinstance(value, float):
        pieces.append(b"\xfb" + struct.pack(">d", value))
    elif value is None:
        pieces.append(b"\xf6")
    elif isinstance(value, bytes):
        pieces += (head(_BYTES, len(value)), value)
    elif isinstance(value, dict):
        pieces.append(head(_MAP, len(value)))
        for key, inner in value.items():
            _write(key, pieces, in_ms)
            _write(inner, pieces, in_ms)
    elif isinstance(value, list | tuple):
        pieces.append(head(_LIST, len(value)))
        for inner in value:
            _write(inner, pieces, in_ms)
    elif isinstance(value, Moment):
        pieces.append(b"\xc1")
        _write(value.ms if in_ms else value.ms / 1000, pieces, in_ms)
    else:
        raise TypeError(f"{type(value).__name__} has no place in an answer")


def head(major: int, number: int) -> bytes:
    """The first bytes of an item: its kind and its length or value."""
    kind = major << 5
    if number < 24:
        return bytes((kind | number,))
    if number < 0x100:
        return bytes((kind | 24, number))
    if number < 0x10000:
        return struct.pack(">BH", kind | 25, number)
    if number < 0x100000000:
        return struct.pack(">BI", kind | 26, number)
    return struct.pack(">BQ", kind | 27, number)
