"""Kafka's field formats, as the rows of internal topics use them: fixed numbers, texts of both kinds, arrays, tagged fields.

A row is read from the front. Whatever does not fit, or is cut short, is a MalformedRow; nothing is allocated because a length
was announced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from headrace.record.varint import read_unsigned_varint, write_unsigned_varint

T = TypeVar("T")


class MalformedRow(ValueError):
    """Bytes that no Kafka broker writes."""


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


class RowReader:
    __slots__ = ("_position", "_row")

    def __init__(self, row: bytes) -> None:
        self._row = row
        self._position = 0

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return len(self._row) - self._position

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedRow(f"{size} bytes wanted, {self.left} left")
        end = self._position + size
        taken = self._row[self._position : end]
        self._position = end
        return taken

    def int8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def uvarint(self) -> int:
        try:
            value, self._position = read_unsigned_varint(self._row, self._position)
        except (ValueError, IndexError) as error:
            raise MalformedRow("a varint that does not end") from error
        return value

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedRow("text that is not UTF-8") from error

    # --- fields of inflexible versions: int16 or int32 lengths, -1 for null

    def string(self) -> str:
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size == -1 else self._text(size)

    def byte_string(self) -> bytes:
        return self.take(self.int32())

    # --- fields of flexible versions (KIP-482): lengths as varints, one too large, 0 for null

    def compact_string(self) -> str:
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self._text(size - 1)

    def compact_bytes(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def compact_array(self, item: Callable[[], T]) -> list[T]:
        return self.items(self.uvarint() - 1, item)

    def tags(self) -> dict[int, bytes]:
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def items(self, count: int, item: Callable[[], T], least_size: int = 1) -> list[T]:
        """So many items, each of at least so many bytes; a null array has none."""
        if count * least_size > self.left:
            raise MalformedRow(f"{count} items in {self.left} bytes")
        return [item() for _ in range(count)]
