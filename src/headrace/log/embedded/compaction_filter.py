"""What stays of the batches of a segment: Kafka's rules of log compaction (KIP-58, KIP-98, KIP-534).

    a record        stays when it is the newest of its key, or newer than what the map knows
    a tombstone     stays until the time in its batch, which the first cleaning sets to now + delete.retention.ms
    a batch         goes when none of its records stays, unless it is the last one of a producer, or of the whole cleaning:
                    then its header stays, for the sequence number and the offset in it
    of transactions see `compaction_transactions`

Offsets, sequences and the compression of a batch never change. What can't be decompressed is kept as it is.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import field

from headrace.dataclass import dataclass
from headrace.disk.port import Buffer
from headrace.log.embedded.compaction_transactions import TransactionsOnTheWay
from headrace.log.embedded.offset_map import (
    COMPRESSION,
    HORIZON,
    PureOffsetMap,
    Written,
    empty_batch,
    rewritten,
    whole_batch,
)
from headrace.record.batch import HEADER_SIZE, BatchHeader, decode_batch, read_header
from headrace.record.compression import Compression, compress, decompress
from headrace.record.control import ControlType, control_type
from headrace.record.errors import BatchError
from headrace.record.twin import decode_records, encode_records

logger = logging.getLogger("headrace.log")


def map_keys(offsets: PureOffsetMap, data: Buffer, start_offset: int, transactions: TransactionsOnTheWay) -> tuple[int, bool]:
    """Notes the keys of the whole batches in `data`. Returns how many bytes that were, and whether the map is full."""
    position = 0
    while True:
        position, full = offsets.add_batches(data, position, start_offset)
        if full:
            return position, True
        size = whole_batch(data, position)
        if not size:
            return position, False
        batch = memoryview(data)[position : position + size]
        header = read_header(batch)
        if header.control:
            transactions.control_batch(header.producer_id, header.last_offset, _kind(batch))
        elif not transactions.data_batch(header.producer_id, header.last_offset, header.transactional):
            try:
                if offsets.add_records(_payload(batch, header), header.record_count, header.base_offset, start_offset):
                    return position, True
            except BatchError as error:
                logger.warning("offset %d: the records can't be read and are kept: %s", header.base_offset, error)
        if header.last_offset >= start_offset:
            offsets.latest = max(offsets.latest, header.last_offset)
        position += size


@dataclass(slots=True)
class Cleaned:
    """What stays of some bytes: pieces to be written one after the other."""

    pieces: list[Buffer] = field(default_factory=list)
    size: int = 0
    written: Written = field(default_factory=list)
    read_bytes: int = 0
    last_header: bytes = b""  # of the last batch that was looked at

    def add(self, piece: Buffer, written: Written) -> None:
        self.written += [(self.size + position, base, newest) for position, base, newest in written]
        self.pieces.append(piece)
        self.size += len(piece)


@dataclass(slots=True)
class SegmentFilter:
    """The rules for one group of segments."""

    offsets: PureOffsetMap
    now_ms: int
    new_horizon_ms: int
    last_of_producers: array[int]  # last offsets of batches whose header must stay; sorted
    last_markers: Mapping[int, int]  # producers of which only a marker is known, and its epoch
    upper_bound: int  # the end of the cleaning
    transactions: TransactionsOnTheWay

    def clean(self, data: Buffer) -> Cleaned:
        """What stays of the whole batches in `data`."""
        cleaned = Cleaned()
        position = 0
        while True:
            kept, position, written, last_at = self.offsets.filter_batches(
                data, position, self.now_ms, self.new_horizon_ms, self.last_of_producers, self.upper_bound
            )
            if kept:
                cleaned.add(kept, written)
            if last_at >= 0:
                cleaned.last_header = bytes(data[last_at : last_at + HEADER_SIZE])
            size = whole_batch(data, position)
            if not size:
                cleaned.read_bytes = position
                return cleaned
            batch = memoryview(data)[position : position + size]
            header = read_header(batch)
            stays = self._control(batch, header) if header.control else self._data(batch, header)
            if not stays and self._keeps_header(header):
                stays = empty_batch(batch)
            if stays:
                newest = int.from_bytes(stays[35:43], "big", signed=True)
                cleaned.add(stays, [(0, header.base_offset, newest)])
            cleaned.last_header = bytes(batch[:HEADER_SIZE])
            position += size

    def _keeps_header(self, header: BatchHeader) -> bool:
        last = header.last_offset
        if last + 1 == self.upper_bound:
            return True
        if header.producer_id < 0:
            return False
        if header.control:
            return self.last_markers.get(header.producer_id) == header.producer_epoch
        place = bisect_left(self.last_of_producers, last)
        return place < len(self.last_of_producers) and self.last_of_producers[place] == last

    def _data(self, batch: memoryview, header: BatchHeader) -> Buffer:
        if self.transactions.data_batch(header.producer_id, header.last_offset, header.transactional):
            return b""
        count, base, base_timestamp = header.record_count, header.base_offset, header.base_timestamp_ms
        if not count:
            return b""
        has_horizon = bool(header.attributes & HORIZON)
        tombstones_go = has_horizon and self.now_ms >= base_timestamp
        try:
            payload = _payload(batch, header)
            kept, records, dropped, tombstones, newest = self.offsets.filter_records(
                payload, count, base, base_timestamp, tombstones_go
            )
        except BatchError:
            return batch
        moved = tombstones and not has_horizon and header.last_offset <= self.offsets.latest
        if moved:
            kept, records, dropped, _, newest = self.offsets.filter_records(
                payload, count, base, base_timestamp, False, self.new_horizon_ms
            )
        if not records:
            return b""
        if not dropped and not moved:
            return batch
        packed = compress(Compression(header.attributes & COMPRESSION), kept)
        return rewritten(batch, packed, records, newest, self.new_horizon_ms if moved else None)

    def _control(self, batch: memoryview, header: BatchHeader) -> Buffer:
        empty, may_go = self.transactions.control_batch(header.producer_id, header.last_offset, _kind(batch))
        if not header.record_count:
            return b""
        if not empty:
            return batch
        horizon = header.delete_horizon_ms
        if horizon is not None:
            return b"" if may_go and self.now_ms >= horizon else batch
        shift = header.base_timestamp_ms - self.new_horizon_ms
        records = [
            (delta, timestamp_delta + shift, key, value, headers)
            for delta, timestamp_delta, key, value, headers in decode_records(batch[HEADER_SIZE:], header.record_count)
        ]
        return rewritten(batch, encode_records(records), len(records), header.max_timestamp_ms, self.new_horizon_ms)


def _payload(batch: memoryview, header: BatchHeader) -> Buffer:
    """The records, uncompressed. What a producer compressed may be anything; what it did not was looked at when it came."""
    return decompress(header.compression, batch[HEADER_SIZE:]) if header.record_count else b""


def _kind(batch: memoryview) -> ControlType | None:
    try:
        records = decode_batch(batch, check_crc=False)
        return control_type(records[0]) if records else None
    except BatchError:
        return ControlType.UNKNOWN
