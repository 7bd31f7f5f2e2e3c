"""What a partition keeps on disk beside its batches: its row of the checkpoint, and what it knows of producers.

A checkpoint notes where each partition stands (`standing_of`), plans what has to be saved of it (`plan_of`), carries the plans
out on the keeper's thread (`carry_out`), many partitions at once, because a sync of many files takes little longer than one of
a few; and the rows (`row_of`) may then say so. `load_producers` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from headrace.disk.port import Disk
from headrace.log.embedded.checkpoint import Row, SyncFailed, replace_files
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.layout import PRODUCERS
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.reading import batches
from headrace.log.embedded.segment import Segment

if TYPE_CHECKING:
    from headrace.log.embedded.partition import EmbeddedPartition
    from headrace.log.embedded.stored import StoredPartition

_FEW_ENTRIES = 256  # an index that lacks no more than these is not worth a write: at the next start so much is read again


class Standing(NamedTuple):
    """How far a partition is readable at one moment, which is what a checkpoint makes safe."""

    start_offset: int
    segment_base: int
    position: int
    end_offset: int


def standing_of(partition: EmbeddedPartition) -> Standing:
    segment, position = partition.readable
    end_offset = partition.high_watermark
    if segment is None or segment not in partition.segments:  # all that was readable is trimmed away, or nothing ever was
        return Standing(partition.start_offset, partition.bases[0] if partition.bases else end_offset, 0, end_offset)
    return Standing(partition.start_offset, segment.base_offset, position, end_offset)


def row_of(partition: EmbeddedPartition, standing: Standing) -> Row:
    end_offset = standing.end_offset
    return Row(*standing, end_offset, end_offset if partition.producers_saved else partition.producers_from)


class Plan(NamedTuple):
    """What makes a row true."""

    partition: EmbeddedPartition
    segments: list[Segment]  # those that may have what is not synced; only to the last one more may come
    complete_before: int  # from this base on a reserved batch may still be on its way
    producers: bytes | None  # to be saved


def plan_of(partition: EmbeddedPartition, complete_before: int) -> Plan:
    segments = [s for s in partition.segments if s.base_offset >= partition.checkpointed_base]
    producers = None
    if partition.producers_changed:
        partition.producers_changed = partition.high_watermark < partition.end_offset  # what waits for its sync is not in it
        producers = partition.producers.save(partition.high_watermark)
        partition.log.files.forget(f"{partition.folder}/{PRODUCERS}")
    return Plan(partition, segments, complete_before, producers)


def carry_out(plans: Sequence[Plan], files: OpenFiles, disk: Disk, rest: Callable[[float], object]) -> None:
    """On another thread. Half of the time it rests, so that group commits get to the disk, too."""
    took_s = 0.0
    for first in range(0, len(plans), files.together):
        if first:
            rest(took_s)
        began_s = perf_counter()
        _carry_out(plans[first : first + files.together], files, disk)
        took_s = perf_counter() - began_s


def _carry_out(plans: Sequence[Plan], files: OpenFiles, disk: Disk) -> None:
    there = _sync_segments(plans, files)
    for plan in plans:
        new = [segment for segment in plan.segments if segment in there and not segment.entry_synced]
        if new:
            disk.sync_folder(plan.partition.folder)
        for segment in new:
            segment.entry_synced = True
    replace_files(
        disk, {f"{plan.partition.folder}/{PRODUCERS}": plan.producers for plan in plans if plan.producers is not None}
    )
    for partition, segments, complete_before, _ in plans:
        for segment in segments[:-1]:
            if segment.base_offset < complete_before:
                segment.drop_index()
        partition.checkpointed_base = complete_before


def _sync_segments(plans: Sequence[Plan], files: OpenFiles) -> set[Segment]:
    """Those that are there."""
    found = {segment.path: segment for plan in plans for segment in plan.segments if segment.size}
    for plan in plans:
        for segment in plan.segments[:-1]:
            try:
                segment.cut_leftovers()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise SyncFailed(str(error)) from error
    for path, failed in files.sync(list(found)).items():
        if not isinstance(failed, FileNotFoundError):
            raise SyncFailed(str(failed)) from failed
        del found[path]  # all of it is reserved, and the commit thread has not come to it yet
    for segment in found.values():
        if segment.sealed or segment.unsaved_entries > _FEW_ENTRIES:
            try:
                segment.save_index()
            except OSError as error:
                if error.errno not in NO_SPACE:  # an index is only a hint
                    raise
    return set(found.values())


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
