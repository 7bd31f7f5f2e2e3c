"""Record batches to the bytes of Arrow columns, in pure Python: the reference for the compiled `headrace._columns`.

A `Decoder` is fed the record batches of one fetch after another, all of one partition, and fills columns with the records it
was asked for. When the columns are full it stops, in the middle of a batch if need be, so that they are bounded whatever the
batches hold:

    decoder = Decoder(first, end, with_headers, max_rows, max_bytes)
    decoder.feed(batches, aborted)
    while decoder.fill():
        ... decoder.take() ...
    if decoder.rows:  # what is left, unless more batches are to come
        ... decoder.take() ...

Every batch's CRC is checked, every length too: bytes that are no batch raise a BatchError, and never more.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from headrace.record.batch import CRC_START, HEADER_SIZE, Buffer, TimestampType, read_header
from headrace.record.compression import decompress
from headrace.record.errors import CorruptBatch
from headrace.record.pure.batches import crc32c
from headrace.record.pure.records import SMALLEST_RECORD
from headrace.record.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from headrace.client.kafka.aborted import AbortedTransactions
    from headrace.spark.columns.layout import Columns, Content, HeaderColumns

_LENGTH_BASE = 12
_MAX_INT64 = (1 << 63) - 1
_MIN_INT64 = -(1 << 63)
_MOST_MILLIS = _MAX_INT64 // 1000

assert sys.byteorder == "little", "Spark reads Arrow in the byte order of Intel and ARM machines"


def survey(buf: Buffer) -> tuple[int, int]:
    """How many bytes of `buf` are whole batches, and the offset that follows the last of them (-1 when there is none)."""
    pos, following = 0, -1
    while len(buf) - pos >= HEADER_SIZE:
        length = int.from_bytes(buf[pos + 8 : pos + 12], "big", signed=True)
        if not HEADER_SIZE - _LENGTH_BASE <= length <= len(buf) - pos - _LENGTH_BASE:
            break
        base = int.from_bytes(buf[pos : pos + 8], "big", signed=True)
        delta = int.from_bytes(buf[pos + 23 : pos + 27], "big", signed=True)
        if not _offsets_exist(base, delta):
            break
        following = base + delta + 1
        pos += length + _LENGTH_BASE
    return pos, following


class Decoder:
    def __init__(self, first: int, end: int, with_headers: bool, max_rows: int, max_bytes: int) -> None:
        """Records from the offset `first` up to, not including, `end`. Columns are full with `max_rows` rows, or when one more
        record would make them larger than `max_bytes`; a record that is larger than that by itself gets columns of its own."""
        self.rows = 0
        self.size = 0  # bytes of the records taken
        self.first = first  # may be moved on, where records were lost
        self._end = end
        self._with_headers = with_headers
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._batches = memoryview(b"")
        self._aborted: AbortedTransactions | None = None
        self._pos = 0
        self._payload = b""
        self._record_pos = 0
        self._left = 0
        self._base_offset = 0
        self._base_time = 0
        self._append_time: int | None = None
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self.size = 0
        self._keys = _Content()
        self._values = _Content()
        self._offsets = array("q")
        self._times = array("q")
        self._time_types = array("i")
        self._has_headers: list[bool] = []
        self._header_ends = array("i", [0])
        self._header_names = _Content()
        self._header_values = _Content()

    def feed(self, batches: Buffer, aborted: AbortedTransactions | None = None) -> None:
        """The next batches, whole ones from `batches`' beginning on. With `aborted`, records of those transactions are left
        out; control batches always are."""
        self._batches = memoryview(batches)
        self._aborted = aborted
        self._pos = 0
        self._left = 0

    def fill(self) -> bool:
        """Fills the columns; True when they are full, False when all batches were read."""
        while True:
            if self._left and self._add_records():
                return True
            if not self._next_batch():
                self._batches = memoryview(b"")
                self._pos = self._left = 0
                return False

    def take(self) -> Columns:
        """The columns so far; they are empty again afterwards."""
        headers: HeaderColumns | None = None
        if self._with_headers:
            count = len(self._header_names)
            names, values = self._header_names.columns(), self._header_values.columns()
            headers = (*_bitmap(self._has_headers), self._header_ends, count, names, values)
        keys, values = self._keys.columns(), self._values.columns()
        taken = (self.rows, keys, values, self._offsets, self._times, self._time_types, headers)
        self._clear()
        return taken

    def _next_batch(self) -> bool:
        self._payload = b""
        while len(self._batches) - self._pos >= HEADER_SIZE:
            start = self._pos
            length = int.from_bytes(self._batches[start + 8 : start + 12], "big", signed=True)
            if not HEADER_SIZE - _LENGTH_BASE <= length <= len(self._batches) - start - _LENGTH_BASE:
                return False
            header = read_header(self._batches, start)
            if not _offsets_exist(header.base_offset, header.last_offset_delta):
                raise CorruptBatch("offsets that no partition has")
            if header.base_offset >= self._end:
                return False
            batch = self._batches[start : start + header.size]
            self._pos += header.size
            if header.last_offset < self.first and self._aborted is None:
                continue
            if crc32c(batch[CRC_START:]) != header.crc:
                raise CorruptBatch("wrong CRC")
            if self._aborted is not None:
                if self._aborted.drops(header, batch) or header.last_offset < self.first:
                    continue
            elif header.control:
                continue
            if header.record_count == 0:
                continue
            self._payload = bytes(decompress(header.compression, batch[HEADER_SIZE:]))
            if not 0 <= header.record_count <= len(self._payload) // SMALLEST_RECORD:
                raise CorruptBatch("the record count does not fit the records")
            self._record_pos = 0
            self._left = header.record_count
            self._base_offset = header.base_offset
            self._base_time = header.base_timestamp_ms
            by_log = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            self._append_time = header.max_timestamp_ms if by_log else None
            return True
        return False

    def _add_records(self) -> bool:
        """True when full; otherwise the batch is done."""
        data = self._payload
        try:
            while self._left:
                length, pos = read_varint(data, self._record_pos)
                end = pos + length
                if length < 0 or end > len(data):
                    raise CorruptBatch("malformed record")
                if self.rows >= self._max_rows or (self.rows and self.size + length > self._max_bytes):
                    return True
                self._add_record(data, pos, end)
                self._record_pos = end
                self._left -= 1
        except (IndexError, ValueError):
            raise CorruptBatch("malformed record") from None
        if self._record_pos != len(data):
            raise CorruptBatch("bytes after the last record")
        return False

    def _add_record(self, data: bytes, start: int, end: int) -> None:
        time_delta, pos = read_varlong(data, start + 1)
        offset_delta, pos = read_varint(data, pos)
        offset = _int64(self._base_offset + offset_delta)
        key, pos = _read_bytes(data, pos, end)
        value, pos = _read_bytes(data, pos, end)
        header_count, pos = read_varint(data, pos)
        if header_count < 0 or header_count > end - pos:
            raise CorruptBatch("malformed record")
        headers = []
        for _ in range(header_count):
            name, pos = _read_bytes(data, pos, end)
            if name is None:
                raise CorruptBatch("malformed record")
            content, pos = _read_bytes(data, pos, end)
            headers.append((name, content))
        if pos != end:
            raise CorruptBatch("malformed record")
        if not self.first <= offset < self._end:
            return
        when = _int64(self._base_time + time_delta) if self._append_time is None else self._append_time
        self._keys.add(key)
        self._values.add(value)
        self._offsets.append(offset)
        self._times.append(_micros(when))
        self._time_types.append(TimestampType.CREATE_TIME if self._append_time is None else TimestampType.LOG_APPEND_TIME)
        if self._with_headers:
            self._has_headers.append(bool(headers))
            for name, content in headers:
                # Text in Arrow is UTF-8: what isn't becomes a replacement character, as in Java.
                self._header_names.add(name if name.isascii() else name.decode("utf-8", "replace").encode())
                self._header_values.add(content)
            self._header_ends.append(len(self._header_names))
        self.rows += 1
        self.size += end - start


class _Content:
    """A column of bytes or text as it grows."""

    def __init__(self) -> None:
        self._there: list[bool] = []
        self._ends = array("i", [0])
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._there)

    def add(self, content: bytes | None) -> None:
        self._there.append(content is not None)
        self._data += content or b""
        self._ends.append(len(self._data))

    def columns(self) -> Content:
        return (*_bitmap(self._there), self._ends, self._data)


def _bitmap(there: list[bool]) -> tuple[int, bytes | None]:
    nulls = there.count(False)
    if not nulls:
        return 0, None
    bits = int("".join("1" if one else "0" for one in reversed(there)), 2)
    return nulls, bits.to_bytes((len(there) + 7) // 8, "little")


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(data, pos)
    if length < 0:
        return None, pos
    if length > end - pos:
        raise CorruptBatch("malformed record")
    return data[pos : pos + length], pos + length


def _offsets_exist(base: int, delta: int) -> bool:
    return base >= 0 and delta >= 0 and base < _MAX_INT64 - delta


def _int64(value: int) -> int:
    """A sum beyond 64 bits wraps, as it does in Java."""
    if _MIN_INT64 <= value <= _MAX_INT64:
        return value
    return ((value - _MIN_INT64) & 0xFFFF_FFFF_FFFF_FFFF) + _MIN_INT64


def _micros(millis: int) -> int:
    """Spark counts in microseconds: times beyond its range become the first or last it has."""
    if millis > _MOST_MILLIS:
        return _MAX_INT64
    if millis < -_MOST_MILLIS:
        return _MIN_INT64
    return millis * 1000
