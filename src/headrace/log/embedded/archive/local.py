"""Which local segments an archived partition still needs, at a start and while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.disk.port import Disk
from headrace.log.embedded.archive.rows import ArchivedSegment
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.layout import index_path, segment_base, segment_path
from headrace.log.embedded.retention import not_needed_locally

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog
    from headrace.log.embedded.partition import EmbeddedPartition


def local_floor(disk: Disk, files: OpenFiles, folder: str, rows: Sequence[ArchivedSegment], start_offset: int) -> int:
    """Where the local part of a partition begins at a start, which is where recovery has to look from.

    Files of archived segments go one by one, and a crash may bring some of them back. What is whole in the archive up to its
    end counts as local as far as the files reach down from there without a gap; what lies below such a gap is removed again.
    """
    if not rows or rows[-1].end_offset <= start_offset:
        return start_offset
    bases = {base for name in disk.list(folder) if (base := segment_base(name)) is not None}
    floor = rows[-1].end_offset
    for row in reversed(rows):
        whole = row.base_offset in bases and disk.size(segment_path(folder, row.base_offset)) == row.size
        if not whole or row.end_offset <= start_offset:
            break
        floor = row.base_offset
    for base in sorted(base for base in bases if base < floor):
        for path in (segment_path(folder, base), index_path(folder, base)):
            if disk.exists(path):
                files.forget(path)
                disk.remove(path)
    return max(start_offset, floor)


async def let_go(log: EmbeddedLog, partition: EmbeddedPartition) -> None:
    """Local copies of archived segments go as `local.retention.*` says."""
    partition.learn_last_segment()
    try:
        before = await log.in_thread(partial(not_needed_locally, partition, log.clock.now_ms()))
    except FileNotFoundError:
        return  # something was trimmed meanwhile; the next look does without it
    partition.drop_archived(before)
