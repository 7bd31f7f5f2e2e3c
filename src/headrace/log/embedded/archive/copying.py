"""A segment on its way to the store: read in pieces, checked batch by batch, its index made anew.

What is archived was sound when it was: each batch's CRC is checked, offsets grow (what compaction once left may have gaps), and
the whole is exactly what the row will say. A damaged segment is not archived, so that the local file stays for whoever can mend
it. Memory: one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from headrace.disk.port import Buffer
from headrace.log.embedded.archive.pace import Pace
from headrace.log.embedded.archive.rows import ArchivedSegment, State
from headrace.log.embedded.archive.side import Aborted, Side
from headrace.log.embedded.archive.store import ObjectStore, StoreError
from headrace.log.embedded.index import SparseIndex
from headrace.log.embedded.segment import HEADER_BYTES, Segment, batch_size
from headrace.record import crc32c, scan_batches

_PIECE_BYTES = 1024 * 1024  # checked in one go, for which the event loop may have to wait: a millisecond or two


class Damaged(Exception):
    """The local segment is not what it should be."""


class Stopped(Exception):
    """The server is ending: the copy is given up."""


class _Checked:
    """The pieces of a segment, and what was learned from them."""

    def __init__(self, segment: Segment, row: ArchivedSegment, pace: Pace, stopping: Callable[[], bool]) -> None:
        self._segment = segment
        self._row = row
        self._pace = pace
        self._stopping = stopping
        self.index = SparseIndex()
        self.crc = 0
        self.first_timestamp = self.max_timestamp = -1

    def __iter__(self) -> Iterator[Buffer]:
        segment, row = self._segment, self._row
        position, expected, next_entry_at = 0, row.base_offset, 0
        with segment.files.lend(segment.path) as file:
            while position < row.size:
                if self._stopping():
                    raise Stopped
                self._pace.wait(min(_PIECE_BYTES, row.size - position), self._stopping)
                data = file.read(position, min(_PIECE_BYTES, row.size - position))
                if len(data) >= HEADER_BYTES and len(data) < batch_size(data) <= row.size - position:
                    data = file.read(position, batch_size(data))
                found, valid = scan_batches(data, 0, expected, True)
                if not valid:
                    raise Damaged(f"{segment.path} is damaged at byte {position}, offset {expected}")
                for start, base, last, timestamp, _ in found:
                    if self.first_timestamp < 0 and position + start == 0:
                        self.first_timestamp = timestamp
                    self.max_timestamp = max(self.max_timestamp, timestamp)
                    if position + start >= next_entry_at:
                        self.index.add(base - row.base_offset, position + start, self.max_timestamp)
                        next_entry_at = position + start + segment.index_interval
                    expected = last + 1
                piece = data if valid == len(data) else memoryview(data)[:valid]
                self.crc = crc32c(piece, self.crc)
                position += valid
                yield piece
        if expected > row.end_offset:
            raise Damaged(f"{segment.path} ends at offset {expected} instead of {row.end_offset}")


def copy_segment(
    store: ObjectStore,
    segment: Segment,
    row: ArchivedSegment,
    aborted: Sequence[Aborted],
    pace: Pace,
    stopping: Callable[[], bool],
) -> ArchivedSegment:
    """Writes both objects and looks whether they are there; the row that says so. Blocks on disk and store."""
    checked = _Checked(segment, row, pace, stopping)
    store.put(row.log_key, checked)
    side = Side(checked.index, tuple(aborted)).content()
    store.put(row.side_key, (side,))
    for key, size in ((row.log_key, row.size), (row.side_key, len(side))):
        if store.size(key) != size:
            raise StoreError(f"{key} has {store.size(key)} bytes after {size} were written")
    return replace(
        row,
        state=State.COPIED,
        first_timestamp=checked.first_timestamp,
        max_timestamp=checked.max_timestamp,
        crc=checked.crc,
        side_bytes=len(side),
    )
