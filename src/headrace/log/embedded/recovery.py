"""What a start does with the folder that a crash left behind.

In this order: the checkpoint says what was safe in the segments; the journal's frames from its floor on are written to their
places again (that is harmless however often it happens); then each partition is read from its checkpoint on, batch by batch,
and what is whole, sound and next in line is kept. The first thing that is not ends the partition:

    behind everything that was promised     it is the torn end of a write that nobody was told about, and is cut off
    inside what was promised                it is damage: the partition keeps what lies before, refuses everything else,
                                            and says so, until somebody restores it. Recovery never guesses.

What is read is what the device has, and not what memory shows of it: after a failed sync the two may differ until the machine
is started again. All that is kept is synced before the journal may be used again.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dataclass import dataclass
from headrace.disk.port import Disk
from headrace.log.embedded.checkpoint import Row
from headrace.log.embedded.compaction_manifest import NONE, Manifest
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.index import ENTRY_BYTES, SparseIndex
from headrace.log.embedded.journal import BATCH, Entry
from headrace.log.embedded.layout import index_of, index_path, segment_base, segment_path
from headrace.log.embedded.segment import Segment

_Found = list[tuple[int, str]]  # base offset and path of each segment's file


@dataclass(slots=True)
class Promise:
    """What the journal says of one partition."""

    start_offset: int = 0
    end_offset: int = 0
    written: bool = False  # something was written to its place again


@dataclass(slots=True)
class Recovered:
    segments: list[Segment]
    start_offset: int
    end_offset: int
    producers_from: int  # below it all is known of producers from their file
    changed: bool  # something was cut or written again
    broken: str = ""
    row: Row | None = None  # of a broken partition: what the next start must know of it


def redo(disk: Disk, folder: str, entries: Sequence[Entry], row: Row | None) -> Promise:
    """Writes the journal's batches for one partition to their places again."""
    promise = Promise(start_offset=row.start_offset if row else 0)
    ends: dict[int, int] = {}  # of the batches of each segment
    for entry in entries:
        if entry.kind == BATCH:
            base = int.from_bytes(entry.content[:8], "big")
            end_offset = base + int.from_bytes(entry.content[23:27], "big") + 1
            ends[entry.segment_base] = max(ends.get(entry.segment_base, 0), end_offset)
        else:
            promise.start_offset = max(promise.start_offset, entry.position)
    promise.end_offset = max(ends.values(), default=0)
    if _shortened(disk, folder, row):
        return promise  # to write behind the hole would hide it
    files = {}
    for base, end_offset in ends.items():
        path = segment_path(folder, base)
        if end_offset > promise.start_offset or disk.exists(path):  # else it was trimmed, and its file is gone already
            files[base] = disk.open(path, create=True)
    for entry in entries:
        if entry.kind == BATCH and entry.segment_base in files:
            files[entry.segment_base].write(entry.position, (entry.content,))
            promise.written = True
    for file in files.values():
        file.close()
    return promise


def _shortened(disk: Disk, folder: str, row: Row | None) -> bool:
    """Something that was safe is not there any more."""
    path = segment_path(folder, row.segment_base) if row else ""
    return row is not None and disk.exists(path) and disk.size(path) < row.position


def open_clean(disk: Disk, files: OpenFiles, folder: str, row: Row, interval: int, manifest: Manifest = NONE) -> Recovered:
    """After a clean end the checkpoint is the whole truth; only that the files are there is looked at."""
    kept, _ = _without_trimmed(_segments(disk, folder, manifest), row, row.start_offset)
    sizes = {base: disk.size(path) for base, path in kept}
    whole = row.position <= sizes.get(row.segment_base, 0)
    begins = min(sizes, default=row.end_offset) <= row.start_offset
    if not whole or not begins:
        return recover(disk, files, folder, row, Promise(row.start_offset), interval, manifest)
    segments = [
        Segment(files, folder, base, interval, row.position if base == row.segment_base else size, manifest.number_of(base))
        for base, size in sizes.items()
        if base <= row.segment_base
    ]
    surplus = []
    for base, path in kept:
        if base > row.segment_base:  # it was begun, but the first write to it failed
            if base == row.end_offset:
                segments.append(Segment(files, folder, base, interval))
            else:
                surplus.append((base, path))
    if surplus:  # else it would one day stand between segments that go past it
        _remove(disk, files, folder, surplus)
        disk.sync_folder(folder)
    return Recovered(segments, row.start_offset, row.end_offset, producers_from=row.producers_end, changed=False)


def recover(
    disk: Disk,
    files: OpenFiles,
    folder: str,
    row: Row | None,
    promise: Promise,
    interval: int,
    manifest: Manifest = NONE,
) -> Recovered:
    """Finds the end of one partition after a crash."""
    start_offset = promise.start_offset
    promised_end = max(promise.end_offset, row.promised_end if row else 0)
    if promised_end <= start_offset:
        promised_end = 0  # all of it was trimmed
    found, trimmed = _without_trimmed(_segments(disk, folder, manifest), row, start_offset)
    _remove(disk, files, folder, trimmed)
    begun = {base for base, _ in found}
    if row is not None and (row.segment_base in begun or (row.position == 0 and row.segment_base >= start_offset)):
        safe = row
    else:  # nothing of it was checkpointed, or a trim took that segment away
        first = found[0][0] if found and found[0][0] <= start_offset else start_offset
        safe = Row(start_offset, first, 0, first, 0, row.producers_end if row else 0)
    result = Recovered(
        [],
        start_offset,
        safe.end_offset,
        producers_from=safe.producers_end,
        changed=promise.written or bool(trimmed),
    )
    surplus = []
    for number, (base, path) in enumerate(found):
        segment = Segment(files, folder, base, interval, disk.size(path), manifest.number_of(base))
        if base < safe.segment_base:
            result.segments.append(segment)
        elif result.broken:
            continue
        elif base in (safe.segment_base, result.end_offset):
            position = safe.position if base == safe.segment_base else 0
            next_base = found[number + 1][0] if number + 1 < len(found) else -1
            _take_segment(result, segment, position, promised_end, next_base)
        elif base < promised_end:
            result.broken = f"{path} begins at {base}, behind a gap from {result.end_offset}"
        else:
            surplus.append((base, path))
    if not result.broken and result.end_offset < promised_end:
        result.broken = f"{folder} ends at offset {result.end_offset}, but {promised_end} was promised"
    if not result.broken and result.segments and result.segments[0].base_offset > start_offset:
        result.broken = f"{folder} begins at offset {result.segments[0].base_offset} instead of {start_offset}"
    if result.broken:
        result.row = safe._replace(start_offset=start_offset, promised_end=promised_end)
        result.start_offset = min(start_offset, result.end_offset)
        surplus = []
    elif result.end_offset < start_offset:  # the trim was promised, what lay before it was not: offsets never go back
        surplus += [(segment.base_offset, segment.path) for segment in result.segments]
        result.segments, result.end_offset = [], start_offset
    _remove(disk, files, folder, surplus)
    if result.changed or surplus:
        result.changed = True
        for segment in result.segments:
            if segment.base_offset >= safe.segment_base:
                with files.lend(segment.path) as file:
                    file.sync()
        disk.sync_folder(folder)
    return result


def _take_segment(result: Recovered, segment: Segment, position: int, promised_end: int, next_base: int) -> None:
    """Adds a segment as far as it is sound, reading it from a position that was safe."""
    files, size = segment.files, segment.size
    if size < position:
        result.broken = f"{segment.path} has {size} bytes where {position} were safe"
        position, result.end_offset = 0, segment.base_offset
    valid = position
    with files.lend(segment.path) as file:
        file.drop_cached(position)
    for start, _, last, _, length in segment.batches(position, size, result.end_offset):
        valid, result.end_offset = start + length, last + 1
    if valid < size and not result.broken:
        if result.end_offset < promised_end and result.end_offset != next_base:
            result.broken = (
                f"{segment.path} is damaged at byte {valid}, offset {result.end_offset}; {promised_end} was promised"
            )
        else:  # synced by the caller before anything is appended: else a lost truncation could bring old batches back
            with files.lend(segment.path) as file:
                file.truncate(valid)
            result.changed = True
    result.changed = result.changed or valid > position
    _cut_index(files, segment, position)
    interval = segment.index_interval
    result.segments.append(Segment(files, segment.folder, segment.base_offset, interval, valid, segment.number))


def _cut_index(files: OpenFiles, segment: Segment, position: int) -> None:
    """Index entries behind the checkpoint may point at what is now other bytes. The cut is synced: were it lost later, such
    entries would stand between true ones."""
    try:
        file = files.get(index_path(segment.folder, segment.base_offset))
    except FileNotFoundError:
        return
    size = file.size()
    index = SparseIndex.load(file.read(0, size))
    index.cut(position)
    if size > len(index) * ENTRY_BYTES:
        file.truncate(len(index) * ENTRY_BYTES)
        file.sync()


def _segments(disk: Disk, folder: str, manifest: Manifest) -> _Found:
    """Those that hold: cleaned copies, and what none of them stands for."""
    bases = [base for name in disk.list(folder) if (base := segment_base(name)) is not None]
    for copy in manifest.copies:
        bases = [base for base in bases if not copy.base_offset <= base < copy.end_offset]
    bases += [one.base_offset for one in manifest.copies if disk.exists(segment_path(folder, one.base_offset, one.number))]
    return [(base, segment_path(folder, base, manifest.number_of(base))) for base in sorted(bases)]


def _without_trimmed(found: _Found, row: Row | None, start_offset: int) -> tuple[_Found, _Found]:
    """The segments, and those that lie wholly below the start: they were removed once, or were about to be."""
    bounds = {base for base, _ in found} | ({row.segment_base} if row else set())
    last_before_start = max((base for base in bounds if base <= start_offset), default=-1)
    return [item for item in found if item[0] >= last_before_start], [item for item in found if item[0] < last_before_start]


def _remove(disk: Disk, files: OpenFiles, folder: str, found: _Found) -> None:
    for _, path in found:
        index = index_of(path)
        for name in (path, index) if disk.exists(index) else (path,):
            files.forget(name)
            disk.remove(name)
