"""What the archive holds of one partition: segments in the order of their offsets, without gaps between them.

The newest may still be on this disk, too; the oldest may reach below the partition's start. Changed on the event loop's thread
only, and only to what durable rows say.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headrace.log.embedded.archive.rows import ArchivedSegment

if TYPE_CHECKING:
    from headrace.log.embedded.archive.archive import Archive


class ArchivedPart:
    __slots__ = ("aborted_unknown", "archive", "bases", "segments", "size_bytes")

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.segments: list[ArchivedSegment] = []
        self.bases: list[int] = []
        self.size_bytes = 0
        self.aborted_unknown = False  # what was saved of transactions is lost: ask the archive before readers are told

    @property
    def end_offset(self) -> int:
        """Everything from the first segment's base up to here is archived; -1 when nothing is."""
        return self.segments[-1].end_offset if self.segments else -1

    def follows(self, base_offset: int) -> bool:
        """Whether a segment with this base may be added."""
        return not self.segments or self.segments[-1].end_offset == base_offset

    def add(self, segment: ArchivedSegment) -> None:
        assert self.follows(segment.base_offset)
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self.size_bytes += segment.size

    def take_below(self, offset: int) -> list[ArchivedSegment]:
        """Forgets the segments that lie wholly below an offset and returns them."""
        count = 0
        while count < len(self.segments) and self.segments[count].end_offset <= offset:
            count += 1
        gone = self.segments[:count]
        if gone:
            del self.segments[:count], self.bases[:count]
            self.size_bytes -= sum(segment.size for segment in gone)
        return gone

    def from_offset(self, offset: int) -> list[ArchivedSegment]:
        """The segments from the one that holds an offset on."""
        return self.segments[max(0, bisect_right(self.bases, offset) - 1) :]

    def holding(self, offset: int) -> ArchivedSegment | None:
        number = bisect_right(self.bases, offset) - 1
        return self.segments[number] if number >= 0 and offset < self.segments[number].end_offset else None

    def bytes_from(self, offset: int, before: int, enough: int) -> int:
        """About how many bytes lie from an offset up to another, or `enough`; offsets inside a segment are taken to be of equal
        size."""
        total = 0
        for segment in self.from_offset(offset):
            if segment.base_offset >= before or total >= enough:
                break
            span = segment.end_offset - segment.base_offset
            left = min(segment.end_offset, before) - max(segment.base_offset, offset)
            total += segment.size * max(0, left) // max(1, span)
        return total
