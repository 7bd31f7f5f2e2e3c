"""Retention: a topic is a circular buffer on disk, by time and by size.

What is in the archive counts like the rest: `retention.ms` and `retention.bytes` are for the whole; `local.retention.ms` and
`local.retention.bytes` say how much of what is archived stays on this disk as well.

A segment goes when its newest record is older than `retention.ms`, or while the partition without it still has
`retention.bytes`. The segment being written goes too once it is too old: a new one is begun first. Only what is durable and
readable goes, and the new start offset is durable before a file is removed.
"""

from __future__ import annotations

from itertools import pairwise

from headrace.log.embedded.partition import EmbeddedPartition

_AS_THE_WHOLE = -2  # what local.retention.* says when it says nothing of its own


def expired_before(partition: EmbeddedPartition, now_ms: int) -> int:
    """The offset below which everything may go. Blocks on the disk where a segment's timestamps are not known yet."""
    config = partition.config
    if not config.delete:
        return partition.start_offset
    before = partition.start_offset
    segments = list(partition.segments)
    local = segments[0].base_offset if segments else partition.end_offset
    only_archived = [row for row in partition.archived.segments if row.base_offset < local] if partition.archived else []
    whole = partition.size_bytes + sum(row.size for row in only_archived)
    excess = whole - config.retention_bytes if config.retention_bytes >= 0 else 0
    for row in only_archived:
        too_much = config.retention_bytes >= 0 and excess >= row.size
        if not too_much and not (config.retention_ms >= 0 and 0 <= row.max_timestamp < now_ms - config.retention_ms):
            return before
        excess -= row.size
        before = row.end_offset
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else partition.end_offset
        if end > partition.high_watermark or segment.size == 0:
            break
        too_much = config.retention_bytes >= 0 and excess >= segment.size
        too_old = False
        if not too_much and config.retention_ms >= 0:
            segment.learn_timestamps()
            too_old = 0 <= segment.max_timestamp < now_ms - config.retention_ms  # records without a time have no age
        if not (too_much or too_old):
            break
        excess -= segment.size
        before = end
    return before


def not_needed_locally(partition: EmbeddedPartition, now_ms: int) -> int:
    """The offset below which local files may go, as far as they are archived. Blocks like `expired_before`."""
    config = partition.config
    keep_ms = config.retention_ms if config.local_retention_ms == _AS_THE_WHOLE else config.local_retention_ms
    keep_bytes = config.retention_bytes if config.local_retention_bytes == _AS_THE_WHOLE else config.local_retention_bytes
    before = 0
    excess = partition.size_bytes - keep_bytes if keep_bytes >= 0 else 0
    segments = list(partition.segments)
    for segment, following in pairwise(segments):
        too_much = keep_bytes >= 0 and excess >= segment.size
        too_old = False
        if not too_much and keep_ms >= 0:
            segment.learn_timestamps()
            too_old = 0 <= segment.max_timestamp < now_ms - keep_ms
        if following.base_offset > partition.archived_end_offset or not (too_much or too_old):
            break
        excess -= segment.size
        before = following.base_offset
    return before


async def apply_retention(partition: EmbeddedPartition, before: int) -> None:
    if before <= partition.start_offset:
        return
    if before == partition.end_offset:
        partition.roll_now()
    await partition.trim(before)
