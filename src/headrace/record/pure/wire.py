"""Kafka's primitive types, read from a request and written to a response, in both encodings: the classic one and the
"flexible" one of KIP-482 (compact lengths, tagged fields). Whatever does not fit its bytes is a `MalformedRequest`."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import cast

from headrace.record.errors import MalformedRequest
from headrace.record.pure.batches import Buffer
from headrace.record.varint import read_unsigned_varint, write_unsigned_varint

_I8 = Struct(">b")
_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")

LONGEST_STRING = 0x7FFF


class Reader:
    """A position in buf[start:end] that only moves forward and never past the end."""

    __slots__ = ("base", "flexible", "pos", "size", "view")

    def __init__(self, buf: Buffer, start: int, end: int, flexible: bool) -> None:
        if start < 0 or end > len(buf) or start > end:
            raise MalformedRequest("the range is outside the buffer")
        self.view = memoryview(buf)[start:end]
        self.base = start
        self.pos = 0
        self.size = end - start
        self.flexible = flexible

    def take(self, size: int) -> int:
        """Moves over `size` bytes; returns where they begin."""
        pos = self.pos
        if size > self.size - pos:
            raise MalformedRequest("the request ends too early")
        self.pos = pos + size
        return pos

    def i8(self) -> int:
        return self._number(_I8, 1)

    def i16(self) -> int:
        return self._number(_I16, 2)

    def i32(self) -> int:
        return self._number(_I32, 4)

    def i64(self) -> int:
        return self._number(_I64, 8)

    def _number(self, kind: Struct, size: int) -> int:
        try:
            (value,) = kind.unpack_from(self.view, self.pos)  # the view ends where the request does
        except StructError:
            raise MalformedRequest("the request ends too early") from None
        self.pos += size
        return cast(int, value)

    def uvarint(self) -> int:
        try:
            value, self.pos = read_unsigned_varint(self.view, self.pos)
        except IndexError:
            raise MalformedRequest("the request ends too early") from None
        except ValueError:
            raise MalformedRequest("a varint is too long") from None
        return value

    def uuid(self) -> bytes:
        pos = self.take(16)
        return bytes(self.view[pos : pos + 16])

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.i16()
        if length < 0:
            return None
        if length > LONGEST_STRING:
            raise MalformedRequest("a string is too long")
        pos = self.take(length)
        try:
            return str(self.view[pos : pos + length], "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("a string is not UTF-8") from None

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequest("a field is null that must not be")
        return value

    def array(self) -> int:
        """The length of an array that can't be null. An element takes at least a byte, so the length is bounded."""
        length = self.uvarint() - 1 if self.flexible else self.i32()
        if length < 0:
            raise MalformedRequest("a field is null that must not be")
        if length > self.size - self.pos:
            raise MalformedRequest("the request ends too early")
        return length

    def span(self) -> tuple[int, int]:
        """Nullable bytes, not copied: (start, end) in the buffer, or (-1, -1)."""
        length = self.uvarint() - 1 if self.flexible else self.i32()
        if length < 0:
            return -1, -1
        pos = self.base + self.take(length)
        return pos, pos + length

    def tags(self) -> None:
        """Skips tagged fields: none of those of the hot requests concerns a consumer or a producer."""
        if self.flexible:
            for _ in range(self.uvarint()):
                self.uvarint()
                self.take(self.uvarint())


def put_string(out: bytearray, value: str, flexible: bool) -> None:
    content = value.encode()
    if len(content) > LONGEST_STRING:
        raise ValueError("a string is too long for the protocol")
    if flexible:
        write_unsigned_varint(out, len(content) + 1)
    else:
        out += _I16.pack(len(content))
    out += content


def put_nullable_string(out: bytearray, value: str | None, flexible: bool) -> None:
    if value is not None:
        put_string(out, value, flexible)
    else:
        out += b"\x00" if flexible else b"\xff\xff"


def put_topic(out: bytearray, topic: str | bytes, by_id: bool, flexible: bool) -> None:
    """A topic as the version names it: by its name, or by its id (KIP-516)."""
    if by_id:
        if not isinstance(topic, bytes) or len(topic) != 16:
            raise ValueError("this version names topics by their 16-byte id")
        out += topic
    elif isinstance(topic, str):
        put_string(out, topic, flexible)
    else:
        raise ValueError("this version names topics by their name")


def put_length(out: bytearray, length: int, flexible: bool) -> None:
    """The length of an array or of bytes; -1 is null."""
    if flexible:
        write_unsigned_varint(out, length + 1)
    else:
        out += _I32.pack(length)
