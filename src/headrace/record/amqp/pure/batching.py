"""Between runs and whole record batches: the header around a run's records, and the batches in what a log gives back.

The header's fields are listed in `headrace.record.pure.batches`.
"""

from __future__ import annotations

from struct import Struct

from headrace.record.pure.batches import CRC_START, HEADER_SIZE, LENGTH_BASE, LOG_APPEND_TIME, Buffer
from headrace.record.twin import crc32c
from headrace.record.varint import read_varint, read_varlong, write_varint

_HEADER = Struct(">qiibIhiqqqhii")
_I32 = Struct(">i")
_U32 = Struct(">I")

Split = tuple[int, int, int, bytes]


def run_batch(records: Buffer, count: int, timestamp_ms: int) -> bytearray:
    """The batch of a run's `count` records, which all came at one time. Its offset is still to be stamped."""
    if not 0 < count <= 0x7FFF_FFFF:
        raise ValueError("a batch has at least one record")
    length = HEADER_SIZE - LENGTH_BASE + len(records)
    if length > 0x7FFF_FFFF:
        raise ValueError("too long for a batch")
    if not -0x8000_0000_0000_0000 <= timestamp_ms <= 0x7FFF_FFFF_FFFF_FFFF:
        raise ValueError("a timestamp has 64 bits")
    batch = bytearray(_HEADER.pack(0, length, 0, 2, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count))
    batch += records
    _U32.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def merge_records(parts: list[bytes], counts: list[int]) -> bytes:
    """The records of several runs as those of one: numbered anew, otherwise as they are."""
    merged = bytearray(parts[0])
    number = counts[0]
    for part, count in zip(parts[1:], counts[1:], strict=True):
        position = 0
        for _ in range(count):
            length, start = read_varint(part, position)
            end = start + length
            if length < 3 or end > len(part):
                raise ValueError("this is no record")
            after_time = read_varlong(part, start + 1)[1]
            _, rest = read_varint(part, after_time)
            head = bytearray(part[start:after_time])
            write_varint(head, number)
            write_varint(merged, len(head) + end - rest)
            merged += head
            merged += part[rest:end]
            position = end
            number += 1
        if position != len(part):
            raise ValueError("this is no run")
    return bytes(merged)


def split_batches(data: Buffer) -> list[Split]:
    """The whole batches at the start of `data`, each as (base_offset, record count, arrival time, bytes). What comes after
    the last whole one is left out; what is no batch raises ValueError."""
    batches: list[Split] = []
    position, size = 0, len(data)
    while size - position >= HEADER_SIZE:
        base, length, _, magic, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = _HEADER.unpack_from(
            data, position
        )
        if magic != 2 or length < HEADER_SIZE - LENGTH_BASE or count < 0:
            raise ValueError("this is no batch")
        end = position + LENGTH_BASE + length
        if end > size:
            break
        timestamp_ms = max_timestamp if attributes & LOG_APPEND_TIME else base_timestamp
        batches.append((base, count, timestamp_ms, bytes(data[position:end])))
        position = end
    return batches


def batch_span(batch: Buffer) -> int:
    """How many offsets a batch covers: more than it has records once a compaction took some out."""
    if len(batch) < HEADER_SIZE:
        raise ValueError("this is no batch")
    span: int = _I32.unpack_from(batch, 23)[0] + 1
    return span
