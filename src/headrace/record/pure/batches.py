"""Checks, stamps and walks over whole batches; nothing here looks into the records.

The header of a record batch v2, 61 bytes, big-endian:

    0 base_offset i64         8 batch_length i32    12 partition_leader_epoch i32   16 magic i8
    17 crc u32                21 attributes i16     23 last_offset_delta i32        27 base_timestamp i64
    35 max_timestamp i64      43 producer_id i64    51 producer_epoch i16           53 base_sequence i32
    57 record_count i32       61 records

`batch_length` counts from byte 12 on. The CRC covers byte 21 to the end, so base offset and leader epoch can be written
without touching it.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c as _crc32c

from headrace.record.errors import CorruptBatch, InconsistentBatch, UnsupportedMagic

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LENGTH_BASE = 12  # batch_length leaves out the base offset and itself
CRC_START = 21
SMALLEST_LENGTH = 14  # of a message of any format, as Kafka counts it
LOG_APPEND_TIME = 0x08
_LAST_OFFSET = 0x7FFF_FFFF_FFFF_FFFE  # the one after it must still be an int64

_PREFIX = Struct(">qi")  # base_offset, batch_length
_FROM_MAGIC = Struct(">bIhiqqqhii")  # magic … record_count, at 16
_SCANNED = Struct(">qiibIhiqq")  # base_offset … max_timestamp
_I16 = Struct(">h")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I64 = Struct(">q")

Checked = tuple[int, int, int, int, int, int, int, int]
Scanned = tuple[int, int, int, int, int]


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, going on from `value`."""
    return _crc32c(data, value)


def check_batch(buf: Buffer, start: int, end: int) -> Checked:
    """Checks that buf[start:end] is exactly one record batch v2, as far as its header can tell. Returns (attributes,
    last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count)."""
    if start < 0 or end > len(buf) or start > end:
        raise CorruptBatch("the range is outside the buffer")
    size = end - start
    if size > 16:  # all three formats keep length and magic in the same place; v0 can be shorter than a header of ours
        if _I32.unpack_from(buf, start + 8)[0] < SMALLEST_LENGTH or buf[start + 16] > 2:
            raise CorruptBatch("this is no batch")
        if buf[start + 16] < 2:
            raise UnsupportedMagic(f"message format v{buf[start + 16]} is not supported")
    if size < HEADER_SIZE:
        raise InconsistentBatch("shorter than a batch header")
    if _I32.unpack_from(buf, start + 8)[0] != size - LENGTH_BASE:
        raise InconsistentBatch("the batch length does not match the bytes given")
    _, crc, attributes, delta, base_ts, max_ts, producer_id, epoch, sequence, count = _FROM_MAGIC.unpack_from(buf, start + 16)
    if _crc32c(memoryview(buf)[start + CRC_START : end]) != crc:
        raise CorruptBatch("wrong CRC")
    if count <= 0:
        raise InconsistentBatch("no records")
    if delta != count - 1:
        raise InconsistentBatch("the last offset delta does not match the record count")
    return attributes, delta, base_ts, max_ts, producer_id, epoch, sequence, count


def stamp_batch(buf: bytearray | memoryview, start: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch at `start` its place in the log. Neither field is under the CRC."""
    if start < 0 or len(buf) - start < 16:
        raise CorruptBatch("the range is outside the buffer")
    _I64.pack_into(buf, start, base_offset)
    _I32.pack_into(buf, start + 12, leader_epoch)


def stamp_append_time(buf: bytearray | memoryview, start: int, end: int, now_ms: int) -> None:
    """Turns the batch at buf[start:end] into one with LogAppendTime: the attribute, the max timestamp and the CRC. Each
    record then has that time, whatever its delta says."""
    if start < 0 or end > len(buf) or start > end:
        raise CorruptBatch("the range is outside the buffer")
    if end - start < HEADER_SIZE:
        raise InconsistentBatch("shorter than a batch header")
    _I16.pack_into(buf, start + 21, _I16.unpack_from(buf, start + 21)[0] | LOG_APPEND_TIME)
    _I64.pack_into(buf, start + 35, now_ms)
    _U32.pack_into(buf, start + 17, _crc32c(memoryview(buf)[start + CRC_START : end]))


def find_offset(buf: Buffer, offset: int) -> int:
    """The position of the first batch whose last offset is at or above `offset`, or -1. The last batch may be cut; it
    counts as long as its header is there."""
    pos, size = 0, len(buf)
    while size - pos >= HEADER_SIZE:
        base, batch_length = _PREFIX.unpack_from(buf, pos)
        if batch_length < HEADER_SIZE - LENGTH_BASE:
            return -1
        if base + _I32.unpack_from(buf, pos + 23)[0] >= offset:
            return pos
        pos += batch_length + LENGTH_BASE
    return -1


def whole_batches(buf: Buffer) -> int:
    """How many bytes at the start of `buf` are whole batches."""
    pos, size = 0, len(buf)
    while size - pos >= HEADER_SIZE:
        batch_length = _I32.unpack_from(buf, pos + 8)[0]
        if batch_length < HEADER_SIZE - LENGTH_BASE or batch_length > size - pos - LENGTH_BASE:
            break
        pos += batch_length + LENGTH_BASE
    return pos


def scan_batches(buf: Buffer, start: int, expected_offset: int, gaps: bool = False) -> tuple[list[Scanned], int]:
    """Walks the batches from `start` and checks of each the length, magic and CRC, and that its base offset is the
    expected one: -1 takes the first as it comes, and with `gaps`, as compaction leaves them, a higher one will do.
    Returns ([(pos, base_offset, last_offset, max_timestamp, size)], valid_end); the first batch that fails ends the
    walk."""
    if not 0 <= start <= len(buf):
        raise CorruptBatch("the range is outside the buffer")
    entries: list[Scanned] = []
    view = memoryview(buf)
    pos, size, expected = start, len(buf), expected_offset
    while size - pos >= HEADER_SIZE:
        base, batch_length, _, magic, crc, _, delta, _, max_ts = _SCANNED.unpack_from(buf, pos)
        if magic != 2 or batch_length < HEADER_SIZE - LENGTH_BASE or batch_length > size - pos - LENGTH_BASE:
            break
        if base != expected and expected != -1 and not (gaps and base > expected):
            break
        if base < 0 or delta < 0 or base > _LAST_OFFSET - delta:
            break
        end = pos + batch_length + LENGTH_BASE
        if _crc32c(view[pos + CRC_START : end]) != crc:
            break
        entries.append((pos, base, base + delta, max_ts, end - pos))
        expected = base + delta + 1
        pos = end
    return entries, pos
