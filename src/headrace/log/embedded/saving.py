"""What a partition keeps on disk beside its batches: its row of the checkpoint, and what it knows of producers.

`checkpoint_steps` makes everything written so far safe, on the keeper's thread; the row that is asked for afterwards may
then say so. `load_producers` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.log.embedded.checkpoint import Row, SyncFailed, replace_file
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.layout import PRODUCERS
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.reading import batches
from headrace.log.embedded.segment import Segment
from headrace.log.port import Durability

if TYPE_CHECKING:
    from headrace.log.embedded.partition import EmbeddedPartition
    from headrace.log.embedded.stored import StoredPartition


def row_of(partition: EmbeddedPartition) -> Row:
    """How far a partition is readable, which is what a checkpoint makes safe."""
    segment, position = partition.readable
    end_offset = partition.high_watermark
    if segment is None or segment not in partition.segments:  # all that was readable is trimmed away, or nothing ever was
        base, position = partition.bases[0] if partition.bases else end_offset, 0
    else:
        base = segment.base_offset
    producers_end = end_offset if partition.producers_saved else partition.producers_from
    return Row(partition.start_offset, base, position, end_offset, end_offset, producers_end)


def checkpoint_steps(partition: EmbeddedPartition) -> list[Callable[[], None]]:
    """What makes the row true that is asked for afterwards, to be done in order on another thread."""
    if partition.durability is Durability.MEMORY:
        return []
    files, folder, disk = partition.log.files, partition.folder, partition.log.disk
    segments = [s for s in partition.segments if s.base_offset >= partition.checkpointed_base]
    sealed = segments[:-1]
    complete_before = row_of(partition).segment_base  # from here on a reserved batch may still be on its way

    def sync() -> None:
        for segment in segments:
            if segment.size:
                _sync_segment(segment, sealed=segment in sealed)
        if not all(segment.entry_synced for segment in segments):
            disk.sync_folder(folder)
        for segment in sealed:
            segment.entry_synced = True
            if segment.base_offset < complete_before:
                segment.drop_index()
        partition.checkpointed_base = complete_before

    steps: list[Callable[[], None]] = [sync] if any(segment.size for segment in segments) else []
    if partition.producers_changed:
        partition.producers_changed = partition.high_watermark < partition.end_offset  # what waits for its sync is not in it
        content = partition.producers.save(partition.high_watermark)
        steps.append(lambda: replace_file(disk, f"{folder}/{PRODUCERS}", content))
        files.forget(f"{folder}/{PRODUCERS}")
    return steps


def _sync_segment(segment: Segment, *, sealed: bool) -> None:
    try:
        if sealed:
            segment.cut_leftovers()
        segment.files.sync(segment.path)
    except FileNotFoundError:  # all of it is reserved, and the commit thread has not come to it yet
        return
    except OSError as error:
        raise SyncFailed(str(error)) from error
    try:
        segment.save_index()
    except OSError as error:
        if error.errno not in NO_SPACE:  # an index is only a hint
            raise


def load_producers(partition: StoredPartition) -> Producers:
    """The saved state, brought up to date with the batches behind it; all batches when what was saved is of no use."""
    loaded: tuple[Producers, int] | None
    try:
        file = partition.log.files_for(partition).get(f"{partition.folder}/{PRODUCERS}")
        loaded = Producers.load(file.read(0, file.size()))
    except FileNotFoundError:
        loaded = Producers(), partition.producers_from
    lost = loaded is None or loaded[1] > partition.restored_end
    if loaded is None or lost:
        loaded = Producers(), partition.local_start_offset
        partition.producers_changed = True
    else:
        loaded = loaded[0], max(loaded[1], partition.producers_from)
    producers, from_offset = loaded
    if from_offset < partition.local_start_offset:
        producers.forget_sequences()
        partition.producers_changed = True  # else the next start would believe the sequences in the file
        lost = True
    if lost and partition.archived is not None:
        partition.archived.aborted_unknown = True
    now_ms = partition.log.clock.now_ms()
    for segment, found in batches(partition, max(from_offset, partition.local_start_offset), partition.restored_end):
        if producers.replay(segment.content(found), found[1], found[2], now_ms):
            partition.producers_changed = True
    producers.transactions.trimmed(partition.start_offset)
    return producers
