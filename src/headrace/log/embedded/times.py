"""Finding records by their time: the first at or after a moment, and the newest of all. Everything here blocks on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.disk.port import Buffer
from headrace.log.embedded.segment import Found, Segment
from headrace.log.port import TimedOffset
from headrace.record import BatchError
from headrace.record.batch import decode_batch


def first_at(segments: Sequence[Segment], timestamp_ms: int, start: int, end: int) -> TimedOffset | None:
    """The first record from `start` on and before `end` whose timestamp is at or after this one."""
    for segment in segments:
        segment.learn_timestamps()
        if segment.max_timestamp < timestamp_ms:
            continue
        for found in segment.batches_from(*segment.index.before_time(timestamp_ms)):
            if found[1] >= end:
                return None
            if found[3] >= timestamp_ms and found[2] >= start:
                for offset, when in record_times(segment.content(found), found):
                    if when >= timestamp_ms and offset >= start:
                        return TimedOffset(offset, when)
    return None


def newest(segments: Sequence[Segment], start: int, end: int) -> TimedOffset | None:
    """The record with the largest timestamp, the first of them."""
    for segment in segments:
        segment.learn_timestamps()
    best: TimedOffset | None = None
    for segment in sorted(segments, key=lambda s: (-s.max_timestamp, s.base_offset)):
        if best is not None and segment.max_timestamp < best.timestamp_ms:
            break
        found = first_at([segment], segment.max_timestamp, start, end) or _newest_in(segment, start, end)
        if found is not None and (best is None or later(found, best)):
            best = found
    return best


def _newest_in(segment: Segment, start: int, end: int) -> TimedOffset | None:
    """For a segment whose largest timestamp was trimmed or is not readable yet."""
    best: TimedOffset | None = None
    for found in segment.batches(0, segment.size):
        if found[1] >= end:
            break
        if found[2] >= start and (best is None or found[3] > best.timestamp_ms):
            for offset, when in record_times(segment.content(found), found):
                if offset >= start and (best is None or when > best.timestamp_ms):
                    best = TimedOffset(offset, when)
    return best


def later(one: TimedOffset, other: TimedOffset) -> bool:
    return (one.timestamp_ms, -one.offset) > (other.timestamp_ms, -other.offset)


def record_times(batch: Buffer, found: Found) -> list[tuple[int, int]]:
    """Offset and timestamp of each record; only what the header says when a producer wrote records that nobody can read."""
    try:
        return [(record.offset, record.timestamp_ms) for record in decode_batch(batch)]
    except BatchError:
        return [(found[1], found[3])]
