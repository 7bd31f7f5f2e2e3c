"""Retention: a topic is a circular buffer on disk, by time and by size.

A segment goes when its newest record is older than `retention.ms`, or while the partition without it still has
`retention.bytes`. The segment being written goes too once it is too old: a new one is begun first. Only what is durable and
readable goes, and the new start offset is durable before a file is removed.
"""

from __future__ import annotations

from headrace.log.embedded.partition import EmbeddedPartition


def expired_before(partition: EmbeddedPartition, now_ms: int) -> int:
    """The offset below which everything may go. Blocks on the disk where a segment's timestamps are not known yet."""
    config = partition.config
    if not config.delete:
        return partition.start_offset
    before = partition.start_offset
    excess = partition.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    segments = list(partition.segments)
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


async def apply_retention(partition: EmbeddedPartition, before: int) -> None:
    if before <= partition.start_offset:
        return
    if before == partition.end_offset:
        partition.roll_now()
    await partition.trim(before)
