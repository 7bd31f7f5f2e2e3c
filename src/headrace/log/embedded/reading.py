"""Ways of reading a partition's segments: without ever waiting for the device, waiting for it, and batch by batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.disk.port import Buffer
from headrace.log.embedded.segment import Found, Segment
from headrace.log.errors import StorageError

if TYPE_CHECKING:
    from headrace.log.embedded.partition import EmbeddedPartition


class WouldWait(Exception):
    """The bytes are not in memory."""


class CachedReads:
    """Reads that never wait for the device."""

    __slots__ = ("_segment",)

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def __call__(self, position: int, size: int) -> bytes | bytearray:
        data = self._segment.file().read_cached(position, size)
        if data is None:
            raise WouldWait
        return data


def read_waiting(segment: Segment, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> Buffer:
    with segment.files.lend(segment.path) as file:
        return segment.read(file.read, offset, max_bytes, limit, at_least_one)


def batches(partition: EmbeddedPartition, offset: int, end: int) -> Iterator[tuple[Segment, Found]]:
    """Every batch from the one that holds `offset` up to another offset. Blocks on the disk. Raises StorageError when one of
    them can't be read."""
    if offset >= end:
        return
    number, expected = max(0, bisect_right(partition.bases, offset) - 1), -1
    while expected < end:
        if number >= len(partition.segments):
            raise StorageError(f"{partition.folder} can't be read from offset {max(expected, offset)} on")
        segment = partition.segments[number]
        for found in segment.batches_from(*segment.index.before_offset(max(0, offset - segment.base_offset))):
            if found[1] >= end:
                return
            if expected not in (-1, found[1]):
                raise StorageError(f"{segment.path} goes on at offset {found[1]} instead of {expected}")
            expected = found[2] + 1
            if found[2] >= offset:
                yield segment, found
        number += 1
