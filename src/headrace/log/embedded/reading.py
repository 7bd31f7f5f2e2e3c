"""Ways of reading a partition's segments: without ever waiting for the device, waiting for it, and batch by batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from headrace.disk.port import Buffer
from headrace.log.embedded.segment import Found, Segment
from headrace.log.errors import StorageError
from headrace.record import find_offset

if TYPE_CHECKING:
    from headrace.log.embedded.stored import StoredPartition


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


def read_waiting(segments: list[tuple[Segment, int]], offset: int, max_bytes: int, at_least_one: bool) -> Buffer:
    """From the first of these segments, each up to its limit, that has anything at or behind the offset."""
    for segment, limit in segments:
        with segment.files.lend(segment.path) as file:
            data = segment.read(file.read, offset, max_bytes, limit, at_least_one)
        if data is not None:
            return data
    return b""


def committed_part(data: Buffer | Awaitable[Buffer], stable_end: int) -> Buffer | Awaitable[Buffer]:
    """What lies below the last stable offset, which is always the beginning of a batch."""
    if isinstance(data, Awaitable):
        return _committed_part_later(data, stable_end)
    position = find_offset(data, stable_end)
    return data if position < 0 else memoryview(data)[:position]


async def _committed_part_later(data: Awaitable[Buffer], stable_end: int) -> Buffer:
    part = committed_part(await data, stable_end)
    assert not isinstance(part, Awaitable)
    return part


def batches(partition: StoredPartition, offset: int, end: int) -> Iterator[tuple[Segment, Found]]:
    """Every batch from the one that holds `offset` up to another offset. Blocks on the disk. Raises StorageError when one of
    them can't be read."""
    if offset >= end:
        return
    number, expected, read_to = max(0, bisect_right(partition.bases, offset) - 1), -1, -1
    while expected < end:
        if number >= len(partition.segments):
            raise StorageError(f"{partition.folder} can't be read from offset {max(expected, offset)} on")
        segment = partition.segments[number]
        for found in segment.batches_from(*segment.index.before_offset(max(0, offset - segment.base_offset))):
            if found[1] >= end:
                return
            if expected not in (-1, found[1]) and not (segment.number and found[1] > expected):
                raise StorageError(f"{segment.path} goes on at offset {found[1]} instead of {expected}")
            expected = found[2] + 1
            read_to = found[0] + found[4]
            if found[2] >= offset:
                yield segment, found
        number += 1
        if segment.number:  # gaps are right in a cleaned copy, also at its end, but nothing of it may be missing
            if read_to != segment.size:
                raise StorageError(f"{segment.path} is damaged at byte {read_to}")
            if number < len(partition.segments):
                expected = max(expected, partition.bases[number])
