"""What a partition is kept in: its segments on this disk and in the archive, as people see them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.log.port import StoredSegment

if TYPE_CHECKING:
    from headrace.log.embedded.segment import Segment
    from headrace.log.embedded.stored import StoredPartition


async def stored_segments(partition: StoredPartition, after: int, most: int) -> list[StoredSegment]:
    local = list(partition.segments)
    ends = [following.base_offset for _, following in pairwise(local)]
    if local:  # a partition that nothing was written to has none
        ends.append(partition.end_offset)
    first_here = local[0].base_offset if local else partition.end_offset
    found = [
        StoredSegment(
            row.base_offset, row.end_offset, row.size, row.first_timestamp, row.max_timestamp, False, True, False, False
        )
        for row in (partition.archived.segments if partition.archived is not None else ())
        if after < row.base_offset < first_here
    ][:most]
    chosen = [(segment, end) for segment, end in zip(local, ends, strict=True) if segment.base_offset > after]
    chosen = chosen[: most - len(found)]
    written = partition.high_watermark  # what is behind it may not be in its file yet
    unknown = [segment for segment, _ in chosen if segment.first_timestamp < 0 and segment.base_offset < written]
    if unknown:
        await partition.log.in_thread(lambda: _learn(unknown))
    archived_end, last = partition.archived_end_offset, local[-1] if local else None
    for segment, end in chosen:
        found.append(
            StoredSegment(
                segment.base_offset,
                end,
                segment.size,
                segment.first_timestamp,
                segment.max_timestamp,
                True,
                end <= archived_end,
                segment is last,
                segment.number > 0,
            )
        )
    return found


def _learn(segments: list[Segment]) -> None:
    for segment in segments:
        try:
            segment.learn_timestamps()
        except OSError:  # it was deleted, or compacted, meanwhile: its times stay unknown
            continue
