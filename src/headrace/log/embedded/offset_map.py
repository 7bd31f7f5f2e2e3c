"""The newest offset of each key, in a fixed amount of memory: what compaction decides by.

A key is kept as a hash of 128 bits, made with a secret that is new for each cleaning, so that nobody can choose two keys that
are taken for one; with 128 bits two keys do not meet by chance. The compiled map (`headrace._compact`) is one block of `slots`
entries of 24 bytes: hash and offset. It never grows. When `limit` of its slots are in use and another key comes, it says so,
and cleaning goes only as far as it has come.

The map also walks over batches itself, many in one call: `add_batches` notes their keys, `filter_batches` returns what stays of
them. Both stop before a batch that is not plain (compressed, of a transaction, or a control batch); `compaction_filter` deals
with those, by `add_records` and `filter_records`. A batch whose CRC or records are wrong raises CorruptBatch.

Here is the map in pure Python; `offset_map` gives the compiled one where it was built.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from headrace.record.batch import HEADER, HEADER_SIZE, check_batch
from headrace.record.errors import CorruptBatch
from headrace.record.twin import crc32c, decode_records, encode_records

Buffer = bytes | bytearray | memoryview
Written = list[tuple[int, int, int]]  # position in what was returned, base offset, largest timestamp of each batch in it

COMPRESSION, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_NOT_PLAIN = COMPRESSION | TRANSACTIONAL | CONTROL
_CRC_START = 21
_WRAP = 1 << 64


class PureOffsetMap:
    BYTES_PER_SLOT = 160  # about what an entry of a dictionary takes, with its hash and offset

    def __init__(self, slots: int, limit: int, seed: bytes) -> None:
        if slots < 1 or not 0 < limit <= slots or len(seed) != 16:
            raise ValueError("an offset map needs a slot, a limit of at least one and a seed of 16 bytes")
        self.slots, self.limit = slots, limit
        self.latest = -1  # everything up to this offset is in the map
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    @property
    def entries(self) -> int:
        return len(self._offsets)

    def get(self, key: bytes) -> int:
        """The newest offset of this key, or -1."""
        return self._offsets.get(self._hash(key), -1)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=16, key=self._seed).digest()

    # --- filling

    def add_batches(self, data: Buffer, position: int, start_offset: int) -> tuple[int, bool]:
        """Notes the keys of plain batches from `position` on, as far as their records are at or behind `start_offset`. Returns
        where it stopped, and whether that is because the map is full."""
        while size := _whole_plain(data, position):
            base, _, _, _, _, _, delta, _, _, _, _, _, count = HEADER.unpack_from(data, position)
            if base + delta >= start_offset:
                payload = memoryview(data)[position + HEADER_SIZE : position + size]
                if self.add_records(payload, count, base, start_offset):
                    return position, True
                self.latest = max(self.latest, base + delta)
            position += size
        return position, False

    def add_records(self, payload: Buffer, count: int, base_offset: int, start_offset: int) -> bool:
        """The same for the records of one batch, uncompressed. True when the map is full."""
        for offset, _, key, _, _ in decode_records(payload, count, base_offset):
            if key is None or offset < start_offset:
                continue
            hashed = self._hash(key)
            known = self._offsets.get(hashed)
            if known is None and len(self._offsets) >= self.limit:
                return True
            self._offsets[hashed] = offset if known is None else max(known, offset)
        return False

    # --- filtering

    def filter_batches(
        self, data: Buffer, position: int, now_ms: int, new_horizon_ms: int, retained: array[int], upper_bound: int
    ) -> tuple[bytes, int, Written, int]:
        """What stays of the plain batches from `position` on: the batches themselves, where it stopped, a list of what was
        written, and the position of the last batch it saw (-1: none).

        A batch without a record that stays goes, unless its last offset is one of `retained` (sorted), or the one before
        `upper_bound`: then its header stays. One whose tombstones are seen for the first time gets `new_horizon_ms`.
        """
        out = bytearray()
        written: Written = []
        last_at = -1
        ends = set(retained)
        while size := _whole_plain(data, position):
            begin = len(out)
            base, delta = HEADER.unpack_from(data, position)[0:7:6]
            keep_empty = base + delta in ends or base + delta + 1 == upper_bound
            out += self._filter_one(memoryview(data)[position : position + size], now_ms, new_horizon_ms, keep_empty)
            if len(out) > begin:
                written.append((begin, base, int.from_bytes(out[begin + 35 : begin + 43], "big", signed=True)))
            last_at = position
            position += size
        return bytes(out), position, written, last_at

    def _filter_one(self, batch: memoryview, now_ms: int, new_horizon_ms: int, keep_empty: bool) -> Buffer:
        base, _, _, _, _, attributes, delta, base_timestamp, _, _, _, _, count = HEADER.unpack_from(batch)
        if count == 0:
            return batch if keep_empty else b""
        has_horizon = bool(attributes & HORIZON)
        payload = batch[HEADER_SIZE:]
        found = self.filter_records(payload, count, base, base_timestamp, has_horizon and now_ms >= base_timestamp)
        moved = found[3] and not has_horizon and base + delta <= self.latest
        if moved:
            found = self.filter_records(payload, count, base, base_timestamp, False, new_horizon_ms)
        kept, records, dropped, _, newest = found
        if not records:
            return empty_batch(batch) if keep_empty else b""
        if not dropped and not moved:
            return batch
        return rewritten(batch, kept, records, newest, new_horizon_ms if moved else None)

    def filter_records(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        tombstones_go: bool,
        new_base_timestamp: int | None = None,
    ) -> tuple[bytes, int, bool, bool, int]:
        """The records of one batch that stay, uncompressed, how many they are, whether others were dropped, whether there are
        tombstones among those that stay, and their largest timestamp. With `new_base_timestamp` they are written relative to
        that one."""
        shift = 0 if new_base_timestamp is None else base_timestamp - new_base_timestamp
        stay: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = []
        newest, tombstones = -1, False
        for delta, timestamp_delta, key, value, headers in decode_records(payload, count):
            offset = base_offset + delta
            if offset <= self.latest and (key is None or self.get(key) > offset or (value is None and tombstones_go)):
                continue
            tombstones = tombstones or value is None
            newest = max(newest, _signed(base_timestamp + timestamp_delta))
            stay.append((delta, _signed(timestamp_delta + shift), key, value, headers))
        return encode_records(stay), len(stay), len(stay) < count, tombstones, newest


def _signed(number: int) -> int:
    number %= _WRAP
    return number - _WRAP if number >= _WRAP // 2 else number


def _whole_plain(data: Buffer, position: int) -> int:
    """The size of the batch there; 0 when it is not whole or not plain."""
    if not 0 <= position <= len(data):
        raise CorruptBatch("the range is outside the buffer")
    size = whole_batch(data, position)
    return 0 if not size or data[position + 22] & _NOT_PLAIN else size


def whole_batch(data: Buffer, position: int) -> int:
    """The size of the batch there, its CRC checked; 0 when not all of it is there."""
    if len(data) - position < HEADER_SIZE:
        return 0
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    if data[position + 16] == 2 and length >= HEADER_SIZE - 12 and length + 12 > len(data) - position:
        return 0
    try:
        return check_batch(data, position).size
    except CorruptBatch:
        raise CorruptBatch(f"a damaged batch at byte {position}") from None


def rewritten(batch: Buffer, payload: Buffer, count: int, newest: int, horizon_ms: int | None) -> bytearray:
    """The batch with other records, compressed as they were; offsets, producer and sequence are what they were."""
    header = list(HEADER.unpack_from(batch))
    header[1] = HEADER_SIZE - 12 + len(payload)
    if horizon_ms is not None:
        header[5] |= HORIZON
        header[7] = horizon_ms
    if not header[5] & LOG_APPEND_TIME:
        header[8] = newest
    header[12] = count
    return _with_crc(header, payload)


def empty_batch(batch: Buffer) -> bytearray:
    """The header alone: it keeps the last offset and the producer's last sequence."""
    header = list(HEADER.unpack_from(batch))
    header[1] = HEADER_SIZE - 12
    header[5] &= ~(COMPRESSION | HORIZON)
    header[7] = -1
    header[12] = 0
    return _with_crc(header, b"")


def _with_crc(header: Sequence[int], payload: Buffer) -> bytearray:
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(batch, 0, *header)
    batch += payload
    batch[17:21] = crc32c(memoryview(batch)[_CRC_START:]).to_bytes(4, "big")
    return batch


if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    OffsetMap = PureOffsetMap
else:
    try:
        from headrace._compact import OffsetMap
    except ImportError:
        OffsetMap = PureOffsetMap


def offset_map(buffer_bytes: int, load_factor: float, most_keys: int, seed: bytes) -> PureOffsetMap:
    """A map for so many keys at most, no larger than the buffer."""
    slots = max(2, min(buffer_bytes // OffsetMap.BYTES_PER_SLOT, int(most_keys / load_factor) + 1))
    return OffsetMap(slots, max(1, int(slots * load_factor)), seed)
