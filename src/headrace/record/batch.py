"""Whole record batches (v2) for those who want records: clients, tables, compaction. The layout is in `pure.batches`.

`encode_batch` makes a batch of events, `decode_batch` gives its records, `batches` walks over many as a fetch returns
them. The hot path of the broker uses `headrace.record.twin` instead and never looks into a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from headrace.dataclass import dataclass
from headrace.record import twin
from headrace.record.compression import MAX_DECOMPRESSED, Compression, compress, decompress
from headrace.record.errors import CorruptBatch, UnsupportedMagic
from headrace.record.event import Event, Header

if TYPE_CHECKING:
    from headrace.record.pure.records import RawRecord

Buffer = bytes | bytearray | memoryview

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_BASE = 12
CRC_START = 21
MAX_BATCH_LENGTH = 0x7FFF_FFFF

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

_COMPRESSION_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

_CRC = Struct(">I")


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Writable(Protocol):
    """What a batch is made of: an `Event`, or a `Record` that was read before."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[Header, ...]: ...
    @property
    def timestamp_ms(self) -> int | None: ...


class Record(NamedTuple):
    """One record where it stands in a partition."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def event(self) -> Event:
        return Event(self.key, self.value, self.headers, self.timestamp_ms)


# What `Record._make` does, without a Python call for each record.
_as_record = cast("Callable[[RawRecord], Record]", partial(tuple.__new__, Record))


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The first 61 bytes of a batch."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LENGTH_BASE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The code; `Compression(code)` when it is one of those that exist."""
        return self.attributes & _COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & _LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones in this batch may go (KIP-534). It is kept in the base timestamp; the deltas are relative to
        it."""
        return self.base_timestamp_ms if self.attributes & _DELETE_HORIZON else None


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`, which must be there whole. The CRC is not looked at."""
    if pos < 0 or len(buf) - pos < HEADER_SIZE:
        raise CorruptBatch("shorter than a batch header")
    header = BatchHeader(*HEADER.unpack_from(buf, pos))
    if header.magic in (0, 1):
        raise UnsupportedMagic(f"message format v{header.magic} is not supported")
    if header.magic != 2:
        raise CorruptBatch("unknown message format")
    if not HEADER_SIZE <= header.size <= len(buf) - pos:
        raise CorruptBatch("the batch length does not fit the bytes given")
    return header


def check_batch(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`, its CRC checked as well. Unlike `twin.check_batch`, which judges what producers
    send, it takes what compaction leaves: gaps in the offsets, even no records at all."""
    header = read_header(buf, pos)
    if twin.crc32c(memoryview(buf)[pos + CRC_START : pos + header.size]) != header.crc:
        raise CorruptBatch("wrong CRC")
    return header


def encode_batch(
    events: Iterable[Writable],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    now_ms: int | None = None,
) -> bytearray:
    """One batch of these events, with offsets from `base_offset` on. An event without a timestamp takes `now_ms`; with
    LOG_APPEND_TIME all of them do."""
    taken = list(events)
    if not taken:
        raise ValueError("a batch needs at least one event")
    times = [event.timestamp_ms for event in taken]
    if now_ms is not None:
        times = [now_ms if time is None else time for time in times]
    known = [time for time in times if time is not None]
    append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    if len(known) < len(taken) or (append_time and now_ms is None):
        raise ValueError("an event without a timestamp needs now_ms, and so does LOG_APPEND_TIME")
    first = known[0]
    highest = now_ms if append_time and now_ms is not None else max(known)
    payload = twin.encode_records(
        (delta, time - first, event.key, event.value, event.headers)
        for delta, (event, time) in enumerate(zip(taken, known, strict=True))
    )
    attributes = int(compression)
    if append_time:
        attributes |= _LOG_APPEND_TIME
    if transactional:
        attributes |= _TRANSACTIONAL
    if control:
        attributes |= _CONTROL
    header = BatchHeader(
        base_offset, 0, leader_epoch, 2, 0, attributes, len(taken) - 1, first, highest,
        producer_id, producer_epoch, base_sequence, len(taken),
    )  # fmt: skip
    return _assemble(header, compress(compression, payload, level))


def wrap_records(
    payload: bytes,
    count: int,
    first_timestamp_ms: int,
    max_timestamp_ms: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """One batch of `count` records that are encoded already, their timestamps relative to the first one's."""
    attributes = int(compression) | (_TRANSACTIONAL if transactional else 0)
    packed = compress(compression, payload, level) if compression else payload
    length = HEADER_SIZE - LENGTH_BASE + len(packed)
    if length > MAX_BATCH_LENGTH:
        raise ValueError("the batch is larger than 2 GiB")
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch, 0, 0, length, NO_LEADER_EPOCH, 2, 0, attributes, count - 1, first_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    batch += packed
    _CRC.pack_into(batch, 17, twin.crc32c(memoryview(batch)[CRC_START:]))
    return batch


def decode_batch(buf: Buffer, pos: int = 0, *, max_size: int = MAX_DECOMPRESSED, check_crc: bool = True) -> list[Record]:
    """The records of the batch at `pos`, whose compressed ones must not grow beyond `max_size` bytes."""
    header = check_batch(buf, pos) if check_crc else read_header(buf, pos)
    if header.record_count == 0:
        return []  # emptied by compaction, which leaves the compression in the attributes but no compressed bytes
    packed = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    payload = decompress(header.compression, packed, max_size)
    raw = twin.decode_records(payload, header.record_count, header.base_offset, header.base_timestamp_ms)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        when = header.max_timestamp_ms
        return [Record(offset, when, key, value, headers) for offset, _, key, value, headers in raw]
    return list(map(_as_record, raw))


def batches(buf: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each whole batch in `buf`, with its header; a cut one at the end, as a fetch may return it, is left out."""
    view = memoryview(buf)
    pos, end = 0, twin.whole_batches(buf)
    while pos < end:
        header = read_header(view, pos)
        yield header, view[pos : pos + header.size]
        pos += header.size


def last_header(buf: Buffer) -> BatchHeader | None:
    """Of the last whole batch in `buf`; the others are stepped over."""
    view = memoryview(buf)
    pos, end, last = 0, twin.whole_batches(buf), -1
    while pos < end:
        last = pos
        pos += LENGTH_BASE + int.from_bytes(view[pos + LENGTH_BASE - 4 : pos + LENGTH_BASE])
    return None if last < 0 else read_header(view, last)


def filter_batch(batch: Buffer, keep: Callable[[Record], bool], *, max_size: int = MAX_DECOMPRESSED) -> bytearray:
    """The batch without the records that `keep` says no to. Offsets, last offset and producer stay what they were, so
    that compaction leaves no trace but gaps; a batch may end up with no records at all."""
    header = check_batch(batch)
    kept = [record for record in decode_batch(batch, max_size=max_size, check_crc=False) if keep(record)]
    base = header.base_timestamp_ms
    payload = twin.encode_records(
        (record.offset - header.base_offset, record.timestamp_ms - base, record.key, record.value, record.headers)
        for record in kept
    )
    highest = header.max_timestamp_ms
    if header.timestamp_type is TimestampType.CREATE_TIME:
        highest = max((record.timestamp_ms for record in kept), default=highest)
    filtered = BatchHeader(
        header.base_offset, 0, header.leader_epoch, 2, 0, header.attributes, header.last_offset_delta, base, highest,
        header.producer_id, header.producer_epoch, header.base_sequence, len(kept),
    )  # fmt: skip
    if not kept:
        return _assemble(filtered, b"")
    return _assemble(filtered, compress(Compression(header.compression), payload))


def _assemble(header: BatchHeader, packed: bytes) -> bytearray:
    length = HEADER_SIZE - LENGTH_BASE + len(packed)
    if length > MAX_BATCH_LENGTH:
        raise ValueError("the batch is larger than 2 GiB")
    batch = bytearray(HEADER_SIZE + len(packed))
    HEADER.pack_into(
        batch, 0, header.base_offset, length, header.leader_epoch, header.magic, 0, header.attributes,
        header.last_offset_delta, header.base_timestamp_ms, header.max_timestamp_ms, header.producer_id,
        header.producer_epoch, header.base_sequence, header.record_count,
    )  # fmt: skip
    batch[HEADER_SIZE:] = packed
    _CRC.pack_into(batch, 17, twin.crc32c(memoryview(batch)[CRC_START:]))
    return batch
