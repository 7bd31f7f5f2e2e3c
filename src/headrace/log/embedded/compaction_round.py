"""One cleaning of one partition, from the first dirty offset to the first that must not be cleaned yet.

    1. the keys of the dirty part go into an offset map, until its end or until the map is full
    2. segments from the oldest one on are copied, without what the map says is old, several small ones into one copy
    3. each copy is synced and listed (`compaction_manifest`); from then on it stands for its segments, also after a crash

All that touches the disk or a batch is a *step* on the cleaner's thread, a few megabytes long; between two steps the event loop
decides whether to go on and how long to rest (`compaction`). Segments, manifest and the state of producers are read and changed
on the event loop only.

Memory: the offset map, one piece of the segment being read (log.cleaner.io.buffer.size, or one batch where that is larger),
what stays of it, and one batch decompressed.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Sequence

from headrace.dataclass import dataclass
from headrace.disk.port import Disk, File
from headrace.log.embedded.checkpoint import SyncFailed
from headrace.log.embedded.compaction_filter import SegmentFilter, map_keys
from headrace.log.embedded.compaction_manifest import CleanedCopy, Manifest, read_manifest, write_manifest
from headrace.log.embedded.compaction_transactions import AbortedTransaction, TransactionsOnTheWay
from headrace.log.embedded.index import SparseIndex
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.layout import index_of, segment_path
from headrace.log.embedded.offset_map import PureOffsetMap, empty_batch
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.segment import Segment, batch_size
from headrace.log.errors import StorageError
from headrace.log.port import Durability
from headrace.record.errors import BatchError

STEP_BYTES = 4 * 1024 * 1024  # read in one step
_SYNC_BYTES = 2 * 1024 * 1024  # written between two syncs of a copy: a large sync would hold up those of producers
_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF
_LAST_SEQUENCE = 0x7FFF_FFFF


class Abandoned(Exception):
    """The partition must not be cleaned any more: it was deleted or reconfigured, or the log closes."""


@dataclass(frozen=True, slots=True)
class ToClean:
    """What is to be cleaned: whole segments, none of which is written to, and the first dirty offset among them."""

    partition: EmbeddedPartition
    segments: tuple[Segment, ...]
    dirty_offset: int
    upper_bound: int  # where the segments end
    clean_bytes: int
    dirty_bytes: int
    overdue: bool = False  # max.compaction.lag.ms has passed

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def end_of(self, segment: Segment) -> int:
        number = self.segments.index(segment) + 1
        return self.segments[number].base_offset if number < len(self.segments) else self.upper_bound


@dataclass(slots=True)
class Cleaning:
    """What was read and written, for the log and the throttle."""

    read_bytes: int = 0
    written_bytes: int = 0
    end_offset: int = 0
    full: bool = False


class Round:
    def __init__(
        self,
        work: ToClean,
        *,
        step: Callable[[Callable[[], None]], Awaitable[None]],
        offsets: PureOffsetMap,
        io_buffer_bytes: int,
        now_ms: int,
        unsaved: set[int],
    ) -> None:
        self.work = work
        self.step = step
        self.unsaved = unsaved  # markers of aborted transactions that were forgotten, but no checkpoint says so yet
        self.cleaning = Cleaning()
        self._partition = work.partition
        self._offsets = offsets
        self._io_buffer_bytes = io_buffer_bytes
        self._now_ms = now_ms

    async def run(self) -> Cleaning:
        """Raises Abandoned, and what a disk raises; then everything is as after the last copy that was listed."""
        await self._map_dirty()
        end = self.cleaning.end_offset = self._offsets.latest + 1
        if end <= self.work.dirty_offset:
            return self.cleaning
        groups = _groups(self.work, end, self._partition.config.segment_bytes)
        transactions = TransactionsOnTheWay(self._aborted(), self.unsaved)
        for number, group in enumerate(groups):
            dirty = end if number + 1 == len(groups) else self._partition.manifest.dirty_offset
            await _Group(self, group, transactions).run(dirty)
        return self.cleaning

    def _aborted(self) -> list[AbortedTransaction]:
        return [AbortedTransaction(*one) for one in self._partition.producers.transactions.all_aborted()]

    def rules(self, transactions: TransactionsOnTheWay) -> SegmentFilter:
        """What stays, as the event loop knows it now."""
        ends: list[int] = []
        markers: dict[int, int] = {}
        durable_end = self._partition.high_watermark
        for producer_id, producer in self._partition.producers.by_id.items():
            durable = [batch for batch in producer.batches if batch[2] < durable_end]
            if durable:
                first, last, base = durable[-1]
                ends.append(base + ((last - first) & _LAST_SEQUENCE))
            else:
                markers[producer_id] = producer.epoch
        horizon = self._now_ms + self._partition.config.delete_retention_ms
        ends_array = array("q", sorted(ends))
        return SegmentFilter(self._offsets, self._now_ms, horizon, ends_array, markers, self.work.upper_bound, transactions)

    async def _map_dirty(self) -> None:
        start, offsets = self.work.dirty_offset, self._offsets
        transactions = TransactionsOnTheWay(self._aborted())

        def look(data: bytes) -> int:
            used, full = map_keys(offsets, data, start, transactions)
            self.cleaning.full = self.cleaning.full or full
            return -1 if full else used

        for segment in self.work.segments:
            end = self.work.end_of(segment)
            if end <= start:
                continue
            position = [-1]

            def map_some(segment: Segment = segment, position: list[int] = position) -> None:
                if position[0] < 0:
                    position[0] = _position_before(segment, start)
                position[0] = self.pieces(segment, position[0], look)

            while position[0] < segment.size:
                await self.step(map_some)
                if self.cleaning.full:
                    return
            offsets.latest = max(offsets.latest, end - 1)

    def pieces(self, segment: Segment, position: int, look: Callable[[bytes], int]) -> int:
        """Gives a step's worth of the segment to `look`, which says how much of each piece it used, or -1 to end."""
        end = min(segment.size, position + STEP_BYTES)
        with segment.files.lend(segment.path) as file:
            while position < end:
                data = file.read(position, min(self._io_buffer_bytes, segment.size - position))
                if len(data) >= 12 and batch_size(data) > len(data):
                    data = file.read(position, min(batch_size(data), segment.size - position))
                try:
                    used = look(data)
                except BatchError as error:
                    raise StorageError(f"{segment.path} can't be compacted behind byte {position}: {error}") from error
                if used < 0:
                    return position
                if used == 0:
                    raise StorageError(f"{segment.path} can't be compacted: no whole batch at byte {position}")
                position += used
                self.cleaning.read_bytes += used
        return position


def _position_before(segment: Segment, offset: int) -> int:
    """Of a batch at or before this offset. An index is a hint: it counts only where such a batch begins."""
    relative, position = segment.index.before_offset(max(0, offset - segment.base_offset))
    with segment.files.lend(segment.path) as file:
        found = int.from_bytes(file.read(position, 8), "big")
    return position if found == segment.base_offset + relative else 0


class _Group:
    """Segments that become one copy."""

    def __init__(self, round_: Round, segments: Sequence[Segment], transactions: TransactionsOnTheWay) -> None:
        self._round = round_
        self._segments = segments
        self._transactions = transactions
        partition = self._partition = round_.work.partition
        self._files = partition.log.files_for(partition)
        self._disk: Disk = self._files.disk
        number = partition.manifest.last_number + 1
        base = segments[0].base_offset
        self._path = segment_path(partition.folder, base, number)
        self._number, self._base = number, base
        self._index = SparseIndex()
        self._next_entry_at = 0
        self._size = self._synced = 0
        self._newest = -1
        self._last_header = b""
        self._file: File | None = None

    async def run(self, dirty_offset: int) -> None:
        emptied = len(self._transactions.emptied)
        rules = self._round.rules(self._transactions)
        try:
            for segment in self._segments:
                position = [0]

                def copy_some(segment: Segment = segment, position: list[int] = position) -> None:
                    position[0] = self._round.pieces(segment, position[0], lambda data: self._copy(rules, data))

                while position[0] < segment.size:
                    await self._round.step(copy_some)
            await self._round.step(self._finish)
        except BaseException:
            self._abandon()
            raise
        await self._list(dirty_offset)
        await self._forget(self._transactions.emptied[emptied:])

    # --- on the cleaner's thread

    def _copy(self, rules: SegmentFilter, data: bytes) -> int:
        cleaned = rules.clean(data)
        self._last_header = cleaned.last_header or self._last_header
        self._write(cleaned.pieces)
        for position, base, newest in cleaned.written:
            self._note(self._size + position, base, newest)
        self._size += cleaned.size
        return cleaned.read_bytes

    def _write(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
            self._file.truncate(0)
        size = sum(map(len, pieces))
        if size:
            self._file.write(self._size, pieces)
            self._round.cleaning.written_bytes += size
            if self._size + size - self._synced >= _SYNC_BYTES:
                self._sync()
                self._synced = self._size + size

    def _sync(self) -> None:
        assert self._file is not None
        try:
            self._file.sync()
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def _note(self, position: int, base_offset: int, newest: int) -> None:
        self._newest = max(self._newest, newest)
        if position >= self._next_entry_at:
            self._index.add(base_offset - self._base, position, self._newest)
            self._next_entry_at = position + self._partition.config.index_interval_bytes

    def _finish(self) -> None:
        if not self._size:  # no segment is without a batch: whoever looks into it finds where it ends
            header = empty_batch(self._last_header)
            self._write([header])
            self._note(0, int.from_bytes(header[:8], "big"), int.from_bytes(header[35:43], "big", signed=True))
            self._size = len(header)
        self._sync()
        assert self._file is not None
        self._file.close()
        copy = self.copy()
        copy.save_index()
        self._files.forget(index_of(self._path))
        if self._partition.durability is not Durability.MEMORY:
            try:
                self._disk.sync_folder(self._partition.folder)
            except OSError as error:
                raise SyncFailed(str(error)) from error

    def copy(self) -> Segment:
        interval = self._partition.config.index_interval_bytes
        copy = Segment(self._files, self._partition.folder, self._base, interval, self._size, self._number)
        copy.sealed = True
        copy.adopt_index(self._index, self._newest)
        return copy

    # --- on the event loop

    async def _list(self, dirty_offset: int) -> None:
        partition = self._partition
        end = self._round.work.end_of(self._segments[-1])
        listed = CleanedCopy(self._base, end, self._number, self._size)
        old = partition.manifest
        row = partition.log.checkpoints.rows.get((partition.topic_id, partition.index))
        trimmed_to = partition.start_offset if row is None else row.start_offset  # a crash may take back what was trimmed since
        new = old.with_copy(listed, dirty_offset, trimmed_to)
        if partition.durability is not Durability.MEMORY:
            await self._replace_list(old, new)
        partition.manifest = new
        copy = self.copy()
        self._files.indexes.note(copy)
        gone = partition.replace_segments(self._segments, copy)
        partition.log.compaction.remove_later(partition, gone)

    async def _replace_list(self, old: Manifest, new: Manifest) -> None:
        folder = self._partition.folder

        def replace() -> None:
            try:
                write_manifest(self._disk, folder, new)
            except OSError as error:
                if error.errno not in NO_SPACE or read_manifest(self._disk, folder) != old:
                    raise SyncFailed(str(error)) from error
                raise

        try:
            await self._round.step(replace)
        except (Abandoned, OSError):  # it was not begun, or there was no room: the old list holds
            self._abandon()
            raise

    async def _forget(self, markers: Sequence[int]) -> None:
        """Aborted transactions without a record left. No checkpoint runs meanwhile, so the next one is sure to say it."""
        if markers:
            partition = self._partition
            async with partition.log.checkpoints.running:
                partition.producers.transactions.forget(set(markers))
                partition.producers_changed = True
                partition.log.checkpoints.changed[partition] = None
                self._round.unsaved.update(markers)

    def _abandon(self) -> None:
        """The copy will not be needed. Should a crash leave it there, the next start removes it."""
        if self._file is not None:
            self._partition.log.compaction.remove_copy(self._files, self._path, self._file)


def _groups(work: ToClean, end_offset: int, segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that together are no larger than one segment may be, and whose offsets fit into one."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in work.segments:
        if segment.base_offset >= end_offset:
            break
        fits = groups and size + segment.size <= segment_bytes
        if fits and work.end_of(segment) - 1 - groups[-1][0].base_offset <= _MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups
