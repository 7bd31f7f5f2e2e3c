"""What a partition knows of transactions: which are open, and which were aborted (KIP-98).

A transaction is open in a partition from its first batch to the marker that ends it. Readers of committed records stop at the
last stable offset: the first record of the oldest transaction that is open, or whose marker a crash could still take back.
Of what lies below it they are told which producers' records to leave out, from the list of aborted transactions.

    open      producer id -> offset of its first record, oldest first
    ending    transactions whose marker may not be durable yet: until it is, they count as open
    aborted   producer id, first offset, the marker's offset, and the last stable offset that the marker made; by marker

The list of aborted ones takes 32 bytes each, and is trimmed with the log: an aborted transaction has at least one batch and a
marker there, some 150 bytes, so the list never takes more than about a fifth of what the partition takes on disk. The whole is
saved in the file `producers` (see there), as it was at the high watermark.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

_COUNTS = struct.Struct(">II")
_OPEN = struct.Struct(">qq")
_ABORTED = struct.Struct(">qqqq")
_NEVER = 0x7FFF_FFFF_FFFF_FFFF


class _Ending(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int


class Transactions:
    __slots__ = ("_ending", "_firsts", "_markers", "_producer_ids", "_stable", "open", "unsettled")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.unsettled = False  # something is open, or may be again after a crash
        self._ending: list[_Ending] = []
        self._producer_ids = array("q")
        self._firsts = array("q")
        self._markers = array("q")  # grows
        self._stable = array("q")

    def __len__(self) -> int:
        """How many aborted ones are remembered."""
        return len(self._markers)

    def __bool__(self) -> bool:
        return self.unsettled or bool(self._markers)

    # --- what batches say

    def wrote(self, producer_id: int, offset: int) -> None:
        """A batch of a transaction; the first one opens it."""
        if producer_id not in self.open:
            self.open[producer_id] = offset
            self.unsettled = True

    def ended(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """A marker. One without a transaction means nothing: the producer wrote to other partitions only."""
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return
        self._ending.append(_Ending(producer_id, first_offset, marker_offset))
        if not commit:
            self._producer_ids.append(producer_id)
            self._firsts.append(first_offset)
            self._markers.append(marker_offset)
            self._stable.append(min(next(iter(self.open.values()), _NEVER), marker_offset + 1))

    def trimmed(self, start_offset: int) -> None:
        """Everything below was forgotten."""
        gone = bisect_left(self._markers, start_offset)
        if gone:
            for column in (self._producer_ids, self._firsts, self._markers, self._stable):
                del column[:gone]

    def forget(self, markers: Collection[int]) -> None:
        """Aborted transactions of which compaction has left no record: readers need not be told of them."""
        stay = [number for number, marker in enumerate(self._markers) if marker not in markers]
        for name in ("_producer_ids", "_firsts", "_markers", "_stable"):
            column = getattr(self, name)
            setattr(self, name, array("q", [column[number] for number in stay]))

    def all_aborted(self) -> list[tuple[int, int, int]]:
        """Producer id, first offset and the marker's offset of each."""
        return list(zip(self._producer_ids, self._firsts, self._markers, strict=True))

    # --- what readers ask

    def stable_end(self, high_watermark: int) -> int:
        """Where readers of committed records stop; everything below the high watermark is durable."""
        if self._ending:
            self._ending = [one for one in self._ending if one.marker_offset >= high_watermark]
        first = next(iter(self.open.values()), _NEVER)
        for one in self._ending:
            if one.first_offset < first:
                first = one.first_offset
        self.unsettled = first != _NEVER
        return min(first, high_watermark)

    def aborted(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of every aborted transaction with records in this range."""
        found = []
        for number in range(bisect_left(self._markers, from_offset), len(self._markers)):
            if self._firsts[number] < to_offset:
                found.append((self._producer_ids[number], self._firsts[number]))
            if self._stable[number] >= to_offset:
                break  # at that marker nothing older was open, so what ended later began later
        return found

    def aborted_from(self, offset: int) -> int:
        """How many aborted transactions end at or behind this offset."""
        return len(self._markers) - bisect_left(self._markers, offset)

    # --- for the archive

    def ended_between(self, start: int, end: int) -> list[tuple[int, int, int, int]]:
        """The aborted transactions whose markers lie there, with all that is known of each."""
        columns = (self._producer_ids, self._firsts, self._markers, self._stable)
        numbers = range(bisect_left(self._markers, start), bisect_left(self._markers, end))
        return [(columns[0][n], columns[1][n], columns[2][n], columns[3][n]) for n in numbers]

    def remember(self, aborted: Sequence[tuple[int, int, int, int]]) -> None:
        """What was lost of them, from elsewhere."""
        known = {row[2]: row for row in (*aborted, *self.ended_between(0, _NEVER))}
        rows = [known[marker] for marker in sorted(known)]
        for place, column in enumerate((self._producer_ids, self._firsts, self._markers, self._stable)):
            column[:] = array("q", [row[place] for row in rows])

    # --- saving

    def save(self, end_offset: int) -> bytes:
        """As it was when the log ended there: a marker behind it has not been written."""
        was_open = [(one.producer_id, one.first_offset) for one in self._ending if one.marker_offset >= end_offset]
        was_open += self.open.items()
        was_open = sorted((first, producer_id) for producer_id, first in was_open if first < end_offset)
        count = bisect_left(self._markers, end_offset)
        pieces = [_COUNTS.pack(len(was_open), count)]
        pieces += [_OPEN.pack(producer_id, first) for first, producer_id in was_open]
        columns = (self._producer_ids, self._firsts, self._markers, self._stable)
        pieces += [_ABORTED.pack(*(column[number] for column in columns)) for number in range(count)]
        return b"".join(pieces)

    @classmethod
    def load(cls, content: bytes, position: int) -> Transactions:
        loaded = cls()
        opened, aborted = _COUNTS.unpack_from(content, position)
        position += _COUNTS.size
        for producer_id, first in _OPEN.iter_unpack(content[position : position + opened * _OPEN.size]):
            loaded.wrote(producer_id, first)
        position += opened * _OPEN.size
        for row in _ABORTED.iter_unpack(content[position : position + aborted * _ABORTED.size]):
            columns = (loaded._producer_ids, loaded._firsts, loaded._markers, loaded._stable)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        return loaded
