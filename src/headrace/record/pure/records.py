"""The records inside a batch, uncompressed: a length, then attributes, deltas, key, value and headers, all varints.

A record here is a tuple (offset_delta, timestamp_delta, key, value, headers), headers being a tuple of (name, value).
Names are UTF-8; bytes that are not survive a decode and encode as surrogate escapes, so that rewriting a batch never
changes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.record.errors import CorruptBatch, InconsistentBatch
from headrace.record.pure.batches import HEADER_SIZE, Buffer
from headrace.record.varint import read_varint, read_varlong, write_varint, write_varlong

Headers = tuple[tuple[str, bytes | None], ...]
RawRecord = tuple[int, int, bytes | None, bytes | None, Headers]

SMALLEST_RECORD = 7  # length, attributes, two deltas, two null lengths, no headers: a byte each


def encode_records(records: Iterable[RawRecord]) -> bytes:
    """The records section of a batch, as it is before compression."""
    out = bytearray()
    body = bytearray()
    for offset_delta, timestamp_delta, key, value, headers in records:
        body.clear()
        body.append(0)  # attributes: no bit is in use
        write_varlong(body, timestamp_delta)
        write_varint(body, offset_delta)
        _write_bytes(body, key)
        _write_bytes(body, value)
        write_varint(body, len(headers))
        for name, content in headers:
            _write_bytes(body, name.encode("utf-8", "surrogateescape"))
            _write_bytes(body, content)
        write_varint(out, len(body))
        out += body
    return bytes(out)


def decode_records(payload: Buffer, count: int, base_offset: int = 0, base_timestamp: int = 0) -> list[RawRecord]:
    """Reads `count` records that fill `payload` exactly, as Kafka's clients demand. The deltas are added to the bases;
    a sum beyond 64 bits wraps, as it does in Java."""
    if not 0 <= count <= len(payload) // SMALLEST_RECORD:
        raise CorruptBatch("the record count does not fit the records")
    data = payload if isinstance(payload, bytes) else bytes(payload)
    records: list[RawRecord] = []
    pos = 0
    try:
        for _ in range(count):
            length, pos = read_varint(data, pos)
            end = pos + length
            if length < 0 or end > len(data):
                raise CorruptBatch("malformed record")
            timestamp_delta, pos = read_varlong(data, pos + 1)
            offset_delta, pos = read_varint(data, pos)
            key, pos = _read_bytes(data, pos, end)
            value, pos = _read_bytes(data, pos, end)
            header_count, pos = read_varint(data, pos)
            headers: Headers = ()
            if header_count:
                headers, pos = _read_headers(data, pos, end, header_count)
            if pos != end:
                raise CorruptBatch("malformed record")
            records.append((_int64(base_offset + offset_delta), _int64(base_timestamp + timestamp_delta), key, value, headers))
    except (IndexError, ValueError):
        raise CorruptBatch("malformed record") from None
    if pos != len(data):
        raise CorruptBatch("bytes after the last record")
    return records


def check_records(batch: Buffer, count: int) -> None:
    """That an uncompressed batch is filled by `count` records, numbered in order; raises InconsistentBatch."""
    try:
        records = decode_records(memoryview(batch)[HEADER_SIZE:], count)
    except CorruptBatch:
        records = []
    if len(records) != count or any(record[0] != number for number, record in enumerate(records)):
        raise InconsistentBatch("the records do not fill the batch in order")


def _int64(value: int) -> int:
    if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return value
    return ((value + 0x8000_0000_0000_0000) & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def _read_headers(data: bytes, pos: int, end: int, count: int) -> tuple[Headers, int]:
    if count < 0 or count > end - pos:
        raise CorruptBatch("malformed record")
    headers = []
    for _ in range(count):
        name, pos = _read_bytes(data, pos, end)
        if name is None:
            raise CorruptBatch("malformed record")
        content, pos = _read_bytes(data, pos, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return tuple(headers), pos


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(data, pos)
    if length < 0:
        return None, pos
    if length > end - pos:
        raise CorruptBatch("malformed record")
    return data[pos : pos + length], pos + length


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)  # -1
        return
    write_varint(out, len(content))
    out += content
