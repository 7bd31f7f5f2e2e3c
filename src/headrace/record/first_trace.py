"""The trace of the first record of a batch, found without decoding the others: one record, however many there are.

Clients that trace give each record its own headers; a batch is sent for many of them, and the first one's trace stands for it.
A compressed batch is not looked into: to know one record, all would have to be unpacked.

Bound: `MAX_HEADERS` of the record are looked at. What is not sound has no trace; whoever stores it says what is wrong with it.
"""

from __future__ import annotations

from headrace.record.tracing import TRACEPARENT, TRACESTATE, Context, Header, context_in

MAX_HEADERS = 32
SEARCHED_BYTES = 64 * 1024

_RECORDS_AT = 61
_ATTRIBUTES_AT = 22
_COMPRESSION = 0x07
_MAX_VARINT_BYTES = 10
_PARENT = TRACEPARENT.encode()
_NAMES = {name.encode(): name for name in (TRACEPARENT, TRACESTATE)}

Buffer = bytes | bytearray | memoryview


def first_context(batch: Buffer) -> Context | None:
    if len(batch) <= _RECORDS_AT or batch[_ATTRIBUTES_AT] & _COMPRESSION:
        return None
    try:
        length, at = _varint(batch, _RECORDS_AT)
        if length <= SEARCHED_BYTES and _PARENT not in bytes(batch[at : at + max(0, length)]):
            return None  # most have none, and to search is quicker than to read
        return context_in(_trace_headers(batch, at))
    except (IndexError, ValueError):
        return None


def _trace_headers(data: Buffer, at: int) -> list[Header]:
    """Of the record that begins here, behind its length."""
    _, at = _varint(data, at + 1)  # behind its attributes: the time
    _, at = _varint(data, at)  # the offset
    for _ in ("key", "value"):
        length, at = _varint(data, at)
        at += max(0, length)
    count, at = _varint(data, at)
    found: list[Header] = []
    for _ in range(min(count, MAX_HEADERS)):
        length, at = _varint(data, at)
        name = _NAMES.get(bytes(data[at : at + length])) if length in (len(TRACEPARENT), len(TRACESTATE)) else None
        length, at = _varint(data, at + max(0, length))
        if name is not None and length >= 0:
            found.append((name, bytes(data[at : at + length])))
        at += max(0, length)
    return found


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """A number in Kafka's zigzag form, and where it ends. Raises IndexError and ValueError."""
    value = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("a number has too many bytes")
