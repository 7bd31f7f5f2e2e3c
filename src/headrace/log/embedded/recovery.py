"""What a start does with the folder that a crash left behind.

In this order: the checkpoint says what was safe in the segments; the journal's frames from its floor on are written to their
places again (that is harmless however often it happens); then each partition is read from its checkpoint on, batch by batch,
and what is whole, sound and next in line is kept. The first thing that is not ends the partition:

    behind everything that was promised     it is the torn end of a write that nobody was told about, and is cut off
    inside what was promised                it is damage: the partition keeps what lies before, refuses everything else,
                                            and says so, until somebody restores it. Recovery never guesses.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.disk.port import Disk
from headrace.log.embedded.checkpoint import Row
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.index import ENTRY_BYTES, SparseIndex
from headrace.log.embedded.journal import BATCH, Entry
from headrace.log.embedded.layout import PRODUCERS, index_path, segment_base, segment_path
from headrace.log.embedded.segment import Segment


@dataclass(slots=True)
class Promise:
    """What the journal says of one partition."""

    start_offset: int = 0
    end_offset: int = 0


@dataclass(slots=True)
class Recovered:
    segments: list[Segment]
    start_offset: int
    end_offset: int
    producers_on_disk: bool
    changed: bool  # something was cut or written again
    broken: str = ""


def redo(disk: Disk, folder: str, entries: list[Entry], row: Row | None) -> Promise:
    """Writes the journal's batches for one partition to their places again."""
    promise = Promise(start_offset=row.start_offset if row else 0)
    for entry in entries:
        if entry.kind != BATCH:
            promise.start_offset = max(promise.start_offset, entry.position)
    touched = {}
    for entry in entries:
        if entry.kind != BATCH:
            continue
        base = int.from_bytes(entry.content[:8], "big")
        end_offset = base + int.from_bytes(entry.content[23:27], "big") + 1
        promise.end_offset = max(promise.end_offset, end_offset)
        if end_offset <= promise.start_offset and not disk.exists(segment_path(folder, entry.segment_base)):
            continue  # trimmed, and its segment is gone already
        path = segment_path(folder, entry.segment_base)
        if path not in touched:
            touched[path] = disk.open(path, create=True)
        touched[path].write(entry.position, (entry.content,))
    for file in touched.values():
        file.close()
    return promise


def open_clean(disk: Disk, files: OpenFiles, folder: str, row: Row, interval: int) -> Recovered:
    """After a clean end the checkpoint is the whole truth."""
    segments = [
        Segment(files, folder, base, interval, row.position if base == row.segment_base else disk.size(path))
        for base, path in _segments(disk, folder)
        if base <= row.segment_base
    ]
    return Recovered(segments, row.start_offset, row.end_offset, disk.exists(f"{folder}/{PRODUCERS}"), changed=False)


def recover(disk: Disk, files: OpenFiles, folder: str, row: Row | None, promise: Promise, interval: int) -> Recovered:
    """Finds the end of one partition after a crash."""
    found = _segments(disk, folder)
    promised_end = max(promise.end_offset, row.end_offset if row else 0)
    start_offset = promise.start_offset
    if row is not None and any(base == row.segment_base for base, _ in found):
        end_offset, from_base, from_position = row.end_offset, row.segment_base, row.position
    else:  # nothing of it was checkpointed, or a trim took that segment away
        end_offset = from_base = found[0][0] if found and found[0][0] <= start_offset else start_offset
        from_position = 0
    result = Recovered([], start_offset, end_offset, producers_on_disk=True, changed=False)
    for base, path in found:
        size = disk.size(path)
        if base < from_base:
            result.segments.append(Segment(files, folder, base, interval, size))
        elif base == result.end_offset or base == from_base:
            _take_segment(
                disk,
                files,
                result,
                Segment(files, folder, base, interval, size),
                from_position if base == from_base else 0,
                promised_end,
            )
        elif base < promised_end:
            result.broken = result.broken or f"{path} begins at {base}, behind a gap from {result.end_offset}"
        else:
            files.forget(path)
            disk.remove(path)
            result.changed = True
    if not result.broken and result.end_offset < promised_end:
        result.broken = f"{folder} ends at offset {result.end_offset}, but {promised_end} was promised"
    if not result.broken and result.segments and result.segments[0].base_offset > start_offset:
        result.broken = f"{folder} begins at offset {result.segments[0].base_offset} instead of {start_offset}"
    if result.changed:
        for segment in result.segments:
            if segment.base_offset >= from_base:
                with files.lend(segment.path, create=True) as file:
                    file.sync()
        disk.sync_folder(folder)
    result.start_offset = min(start_offset, result.end_offset)
    return result


def _take_segment(disk: Disk, files: OpenFiles, result: Recovered, segment: Segment, position: int, promised_end: int) -> None:
    """Adds a segment as far as it is sound, reading it from a position that was safe."""
    if result.broken:
        return
    size = segment.size
    if size < position:
        result.broken = f"{segment.path} has {size} bytes where {position} were safe"
        return
    valid = position
    for start, _, last, _, length in segment.batches(position, size, result.end_offset):
        valid, result.end_offset = start + length, last + 1
    if valid < size:
        if result.end_offset < promised_end:
            result.broken = (
                f"{segment.path} is damaged at byte {valid}, offset {result.end_offset}; {promised_end} was promised"
            )
        else:  # synced by the caller before anything is appended: else a lost truncation could bring old batches back
            with files.lend(segment.path) as file:
                file.truncate(valid)
            result.changed = True
    result.changed = result.changed or valid > position
    _cut_index(files, segment, position)
    result.segments.append(Segment(segment.files, segment.folder, segment.base_offset, segment.index_interval, valid))


def _cut_index(files: OpenFiles, segment: Segment, position: int) -> None:
    """Index entries behind the checkpoint may point at what is now other bytes."""
    try:
        file = files.get(index_path(segment.folder, segment.base_offset))
    except FileNotFoundError:
        return
    index = SparseIndex.load(file.read(0, file.size()))
    index.cut(position)
    file.truncate(len(index) * ENTRY_BYTES)


def _segments(disk: Disk, folder: str) -> list[tuple[int, str]]:
    bases = [base for name in disk.list(folder) if (base := segment_base(name)) is not None]
    return [(base, segment_path(folder, base)) for base in sorted(bases)]
