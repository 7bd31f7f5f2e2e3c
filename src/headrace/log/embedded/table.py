"""A table: a compacted internal topic, read to its end into a dictionary.

A row is a record: its key and its newest value; no value removes the row. One `put` is one batch, so it happens as a whole.
The topic is kept short without a cleaner: when it has grown to a few times the size of its rows, all rows are written once
more at its end and everything before them is trimmed. A crash in between leaves rows that are there twice, with one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.reading import batches
from headrace.log.errors import StorageError
from headrace.record.batch import decode_batch, encode_batch
from headrace.record.event import Event

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

_REWRITE_FACTOR = 4
_REWRITE_FROM_BYTES = 1024 * 1024
_REWRITE_STEP_BYTES = 256 * 1024
_ROW_BYTES = 16  # about what a record takes beside its key and value


class EmbeddedTable:
    def __init__(self, log: EmbeddedLog, partition: EmbeddedPartition) -> None:
        self._log = log
        self.partition = partition
        self._rows: dict[bytes, bytes] = {}
        self._live_bytes = 0
        self._rewriting = False
        if partition.broken:
            raise StorageError(f"the table {partition.topic} can't be read: {partition.broken}")
        for segment, found in batches(partition, partition.start_offset, partition.end_offset):
            self._apply((record.key, record.value) for record in decode_batch(segment.content(found)))

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self._rows.items()

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        if rows:
            self.partition.append(self.batch(rows))
            self.applied(rows)

    def batch(self, rows: Mapping[bytes, bytes | None]) -> bytearray:
        now_ms = self._log.clock.now_ms()
        return bytearray(encode_batch([Event(key, value, timestamp_ms=now_ms) for key, value in rows.items()]))

    def applied(self, rows: Mapping[bytes, bytes | None]) -> None:
        """The rows are in the log."""
        self._apply(rows.items())
        if self.partition.size_bytes > max(_REWRITE_FROM_BYTES, _REWRITE_FACTOR * self._live_bytes) and not self._rewriting:
            self._rewriting = True
            self._log.spawn(self._rewrite())

    def _apply(self, rows: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in rows:
            assert key is not None
            old = self._rows.pop(key, None)
            if old is not None:
                self._live_bytes -= len(key) + len(old) + _ROW_BYTES
            if value is not None:
                self._rows[key] = value
                self._live_bytes += len(key) + len(value) + _ROW_BYTES

    async def _rewrite(self) -> None:
        """All rows once more at the end, step by step, so that nobody waits long; then the past is trimmed."""
        try:
            self.partition.roll_now()  # so that what lies before goes with its file
            first = self.partition.end_offset
            keys = list(self._rows)
            while keys:
                step: dict[bytes, bytes | None] = {}
                size = 0
                while keys and size < _REWRITE_STEP_BYTES:
                    key = keys.pop()
                    value = self._rows.get(key)
                    if value is not None:
                        step[key] = value
                        size += len(key) + len(value)
                if step:
                    self.partition.append(self.batch(step))
                await self._log.synced()
            await self.partition.trim(min(first, self.partition.high_watermark))
        finally:
            self._rewriting = False
