"""A batch of messages in memory, as it is stored: one run, with the offset of its first message in its lane."""

from __future__ import annotations

from headrace.record.amqp import twin
from headrace.record.amqp.message import Message, read_message, read_messages
from headrace.record.amqp.properties import expiration

FIRST_RECORD = 61
_HEADER_BYTES = 200  # about what a batch takes beside its bytes


class Batch:
    __slots__ = ("_expiration_ms", "_index", "_position", "base", "count", "data", "end", "size_bytes", "timestamp_ms")

    def __init__(self, base: int, count: int, timestamp_ms: int, data: bytes) -> None:
        self.base = base
        self.end = base + count
        self.count = count
        self.timestamp_ms = timestamp_ms
        self.data = data
        self.size_bytes = len(data) + _HEADER_BYTES
        self._index, self._position = 0, FIRST_RECORD  # where somebody stopped reading: mostly where the next one begins
        self._expiration_ms: int | None = -1

    def position_of(self, offset: int) -> int:
        """Where the record of this offset begins."""
        index = offset - self.base
        if index < self._index:
            self._index, self._position = 0, FIRST_RECORD
        if index > self._index:
            self._position = twin.skip(self.data, self._position, index - self._index)
            self._index = index
        return self._position

    def read_to(self, offset: int, position: int) -> None:
        """The record of this offset begins here."""
        self._index, self._position = offset - self.base, position

    @property
    def expiration_ms(self) -> int | None:
        """The `expiration` that all messages of a batch agree in."""
        if self._expiration_ms == -1:
            self._expiration_ms = None
            text = expiration(read_message(self.data, FIRST_RECORD)[0].properties)
            if text is not None and text.isascii() and text.isdigit():
                self._expiration_ms = int(text)
        return self._expiration_ms

    def messages(self, first: int, end: int) -> list[Message]:
        return read_messages(self.data, self.position_of(first), end - first)
