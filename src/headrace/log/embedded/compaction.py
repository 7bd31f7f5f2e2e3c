"""Compaction in the background: which partition is cleaned when, and how much of the machine that may take.

Every `log.cleaner.backoff.ms` the cleaner looks at all compacted topics and cleans the partition with the largest dirty ratio,
again and again until none is dirty enough: more than `min.cleanable.dirty.ratio` of its bytes, or older than
`max.compaction.lag.ms` (KIP-354). Never touched are the segment being written, what lies at or behind the last stable offset,
what `min.compaction.lag.ms` protects, and what no checkpoint covers yet: the journal might still write there after a crash.

The work is done in steps on one thread (`compaction_round`). A step gives the interpreter's lock away while it walks over
batches, so producers and readers do not wait for it. After a step the cleaner rests, so that over time it takes no more than
`headrace.cleaner.cpu.share` of one core and moves no more than `log.cleaner.io.max.bytes.per.second`.

A partition in which the cleaner meets damage is reported and left alone until the next start.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.dataclass import dataclass
from headrace.disk.port import File
from headrace.log.config_types import MAX_LONG
from headrace.log.embedded.checkpoint import Row, SyncFailed
from headrace.log.embedded.compaction_round import STEP_BYTES, Abandoned, Cleaning, Round, ToClean
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.journal import NO_SPACE
from headrace.log.embedded.layout import index_of
from headrace.log.embedded.offset_map import offset_map
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.segment import Segment
from headrace.log.embedded.threads import ThreadWorker, Worker
from headrace.log.errors import StorageError
from headrace.log.port import Durability
from headrace.short_turns import ShortTurns

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

logger = logging.getLogger("headrace.log")

_REST_FROM_S = 0.002  # shorter rests are added up
_LONGEST_DELAY_MS = 60_000
_SHORTEST_BACKOFF_MS = 100


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The server's settings of these names, `log.cleaner.…` and `headrace.cleaner.cpu.share`."""

    enable: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 * 1024
    io_max_bytes_per_second: float = math.inf
    cpu_share: float = 0.5


class Compaction:
    def __init__(
        self,
        log: EmbeddedLog,
        settings: CleanerSettings,
        random_bytes: Callable[[int], bytes],
        reserve_bytes: int = 0,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        self.settings = settings
        self._done = log.upkeep
        self.worker: Worker | None = None  # a thread, begun when there is something to do
        self._log = log
        self._random_bytes = random_bytes
        self._reserve_bytes = reserve_bytes  # of the disk, for others: what makes room must not take the last of it
        self._cpu_time = cpu_time
        self._running = False
        self._rest_s = 0.0  # that is still to be taken
        self._cleaned: EmbeddedPartition | None = None
        self._left = asyncio.Event()
        self._given_up: dict[EmbeddedPartition, str] = {}
        self._unsaved: dict[EmbeddedPartition, tuple[Row | None, set[int]]] = {}

    # --- when

    def start(self) -> None:
        self._log.schedule("compaction", max(_SHORTEST_BACKOFF_MS, self.settings.backoff_ms) / 1000, self._pass)

    def configure(self, settings: CleanerSettings) -> None:
        if settings != self.settings:
            self.settings = settings
            self.start()

    def _pass(self) -> None:
        self.start()
        self._log.spawn(self.run())

    async def run(self) -> None:
        """One pass: cleans until no partition is dirty enough."""
        if self._running or not self.settings.enable:
            return
        self._running = True
        try:
            await self._prepare()
            tried: set[EmbeddedPartition] = set()
            while self._log.refusal is None and (work := await self._dirtiest(tried)) is not None:
                if not await self._clean(work):
                    tried.add(work.partition)
        finally:
            self._running = False

    async def _compacted(self) -> list[EmbeddedPartition]:
        turns = ShortTurns()
        found: list[EmbeddedPartition] = []
        for topic in tuple(self._log.topics().values()):
            if topic.resolved.compact and not topic.internal and not topic.resolved.remote_storage_enable:
                found += topic.partitions
            if turns.over:
                await turns.rest()
        return [each for each in found if self._is_there(each) and not each.broken and each not in self._given_up]

    def _is_there(self, partition: EmbeddedPartition) -> bool:
        return bool(partition.segments) and self._log.partition(partition.topic, partition.index) is partition

    async def _prepare(self) -> None:
        """Begins new segments where `max.compaction.lag.ms` is over, and has a checkpoint cover what is closed."""
        now_ms = self._log.clock.now_ms()
        uncovered = False
        for partition in await self._compacted():
            lag = partition.config.max_compaction_lag_ms
            if lag < MAX_LONG and partition.segments[-1].size:
                partition.learn_last_segment()
                if 0 < partition.segments[-1].first_timestamp < now_ms - lag:
                    partition.roll_for_cleaning()
            closed = [segment for segment in partition.segments[:-1] if segment.size]
            if closed and partition.durability is not Durability.MEMORY:
                uncovered = uncovered or closed[-1].base_offset >= self._covered_to(partition)
        if uncovered:
            await self._log.checkpoints.run()

    def _covered_to(self, partition: EmbeddedPartition) -> int:
        """Segments before this offset change no more, whatever a crash does."""
        if partition.durability is Durability.MEMORY:
            readable = partition.readable[0]
            return min(partition.bases[-1], readable.base_offset if readable is not None else 0)
        row = self._row(partition)
        return row.segment_base if row is not None else 0

    def _row(self, partition: EmbeddedPartition) -> Row | None:
        return self._log.checkpoints.rows.get((partition.topic_id, partition.index))

    # --- which

    async def _dirtiest(self, tried: set[EmbeddedPartition]) -> ToClean | None:
        best: ToClean | None = None
        for partition in await self._compacted():
            if partition not in tried:
                work = await self.survey(partition)
                if work is None or not work.dirty_bytes:
                    continue
                enough = work.overdue or work.dirty_ratio > partition.config.min_cleanable_dirty_ratio
                if enough and (best is None or work.dirty_ratio > best.dirty_ratio):
                    best = work
        return best

    async def survey(self, partition: EmbeddedPartition) -> ToClean | None:
        """What could be cleaned of a partition now; None when that is nothing."""
        dirty = max(partition.manifest.dirty_offset, partition.start_offset)
        if partition.bases[-1] <= dirty:
            return None
        try:
            stable = partition.last_stable_offset
        except StorageError:
            return None  # whoever appends is told
        closed = _closed(partition, self._covered_to(partition), stable)
        if not closed:
            return None
        config = partition.config
        overdue = False
        if config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < MAX_LONG:
            now_ms = self._log.clock.now_ms()
            try:
                closed, overdue = await self._log.in_thread(partial(_old_enough, partition, closed, dirty, now_ms))
            except FileNotFoundError:
                return None  # trimmed meanwhile
        if not closed:
            return None
        upper = closed[-1][1]
        return ToClean(
            partition,
            tuple(segment for segment, _ in closed),
            min(dirty, upper),
            upper,
            clean_bytes=sum(segment.size for segment, _ in closed if segment.base_offset < dirty),
            dirty_bytes=sum(segment.size for segment, end in closed if end > dirty),
            overdue=overdue,
        )

    # --- how

    async def _clean(self, work: ToClean) -> bool:
        """False when there is no use in trying again during this pass."""
        log, settings, partition = self._log, self.settings, work.partition
        name = f"{partition.topic}-{partition.index}"
        row, unsaved = self._unsaved.get(partition, (None, set()))
        if row is not self._row(partition):
            unsaved = set()
        cleaning = Cleaning()
        began = log.clock.monotonic()
        self._cleaned = partition
        try:
            most_keys = work.upper_bound - work.dirty_offset
            offsets = offset_map(settings.dedupe_buffer_bytes, settings.load_factor, most_keys, self._random_bytes(16))
            round_ = Round(
                work,
                step=lambda job: self._step(partition, round_.cleaning, job),
                offsets=offsets,
                io_buffer_bytes=max(4096, settings.io_buffer_bytes),
                now_ms=log.clock.now_ms(),
                unsaved=unsaved,
            )
            cleaning = await round_.run()
        except (Abandoned, FileNotFoundError):
            return False  # trimmed, deleted or reconfigured: another day, if at all
        except SyncFailed as error:
            log.sync_failed(error)
            return False
        except OSError as error:
            if error.errno not in NO_SPACE:
                self._give_up(partition, name, error)
            return False
        except StorageError as error:
            self._give_up(partition, name, error)
            return False
        finally:
            if unsaved:
                self._unsaved[partition] = (self._row(partition), unsaved)
            self._cleaned = None
            self._left.set()
            self._left = asyncio.Event()
        if cleaning.end_offset <= work.dirty_offset:
            logger.warning("%s: one batch has more keys than log.cleaner.dedupe.buffer.size has room for", name)
            return False
        done, taken_s = self._done, log.clock.monotonic() - began
        done.compactions += 1
        done.compaction_seconds += taken_s
        done.compaction_read_bytes += sum(segment.size for segment in work.segments)
        done.compaction_written_bytes += cleaning.written_bytes
        logger.info(
            "compacted %s up to offset %d: %d bytes became %d in %.1f s, %d keys%s",
            name,
            cleaning.end_offset,
            sum(segment.size for segment in work.segments),
            cleaning.written_bytes,
            taken_s,
            offsets.entries,
            ", as far as the map of keys has room" if cleaning.full else "",
        )
        return True

    def _give_up(self, partition: EmbeddedPartition, name: str, error: Exception) -> None:
        self._given_up[partition] = str(error)
        self._done.compaction_given_up += 1
        logger.error("%s is not compacted any more until the next start: %s", name, error)

    async def _step(self, partition: EmbeddedPartition, cleaning: Cleaning, job: Callable[[], None]) -> None:
        if self._rest_s >= _REST_FROM_S:
            rest, self._rest_s = self._rest_s, 0.0
            await self._rest(rest)
        if partition.broken or not partition.config.compact or not self.settings.enable or self._log.refusal is not None:
            raise Abandoned
        if self._log.disk.free_bytes() < self._reserve_bytes + 2 * STEP_BYTES and self._reserve_bytes:
            raise Abandoned
        taken = [0.0]

        def measured() -> None:
            begin = self._cpu_time()
            try:
                job()
            finally:
                taken[0] = self._cpu_time() - begin

        moved, began = cleaning.read_bytes + cleaning.written_bytes, self._log.clock.monotonic()
        await self._job(measured)
        elapsed = self._log.clock.monotonic() - began
        moved = cleaning.read_bytes + cleaning.written_bytes - moved
        share = min(1.0, max(0.01, self.settings.cpu_share))
        due = max(taken[0] / share, moved / self.settings.io_max_bytes_per_second)  # how long this may last at least
        self._rest_s = max(0.0, self._rest_s + due - elapsed)  # to wait for the disk is to rest

    async def _job(self, job: Callable[[], None]) -> None:
        future = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if not future.done():
                future.set_exception(error) if error is not None else future.set_result(None)
            elif isinstance(error, SyncFailed):  # nobody waits for it any more, but it must not be lost
                self._log.sync_failed(error)

        if self.worker is None:
            self.worker = ThreadWorker("headrace-cleaner", asyncio.get_running_loop())
        self.worker.submit(job, done)
        await future

    async def _rest(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._log.clock.call_later(seconds, lambda: None if future.done() else future.set_result(None))
        await future

    # --- making room

    def remove_later(self, partition: EmbeddedPartition, segments: Sequence[Segment]) -> None:
        """Readers may be about to open one of these: they stay for `file.delete.delay.ms`, a minute at most. What a server
        that ends does not come to, the next start removes."""

        def remove() -> None:
            if not self._log.closed and not partition.broken:
                self._log.remove_segments(partition, segments)

        delay_ms = min(_LONGEST_DELAY_MS, partition.config.file_delete_delay_ms)
        self._log.clock.call_later(0 if self._log.refusal else delay_ms / 1000, remove)

    def remove_copy(self, files: OpenFiles, path: str, file: File) -> None:
        """A copy that was not finished goes, behind whatever step may still be writing to it."""

        def job() -> None:
            file.close()
            for name in (index_of(path), path):
                files.forget(name)
                if files.disk.exists(name):
                    files.disk.remove(name)

        def done(error: Exception | None) -> None:
            if error is not None:
                logger.error("could not remove %s: %s", path, error)

        assert self.worker is not None
        self.worker.submit(job, done)

    async def left(self, partitions: Sequence[EmbeddedPartition]) -> None:
        """Returns when none of these, which are marked as broken, is being worked on: then their files may go."""
        while self._cleaned is not None and self._cleaned in partitions:
            await self._left.wait()
        if self.worker is not None:
            await self._job(lambda: None)
        for partition in partitions:
            self._given_up.pop(partition, None)
            self._unsaved.pop(partition, None)


def _closed(partition: EmbeddedPartition, covered_to: int, stable: int) -> list[tuple[Segment, int]]:
    """The segments that may be cleaned, each with its end: all from the first one on that are closed for good."""
    found = []
    for number, segment in enumerate(partition.segments[:-1]):
        end = partition.bases[number + 1]
        if segment.base_offset >= covered_to or end > stable or not segment.size:
            break
        found.append((segment, end))
    return found


def _old_enough(
    partition: EmbeddedPartition, closed: list[tuple[Segment, int]], dirty: int, now_ms: int
) -> tuple[list[tuple[Segment, int]], bool]:
    """Those that `min.compaction.lag.ms` lets go, and whether `max.compaction.lag.ms` asks for it. Blocks on the disk."""
    config = partition.config
    found, overdue = [], False
    for segment, end in closed:
        if end > dirty:
            segment.learn_timestamps()
            if config.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - config.min_compaction_lag_ms:
                break
            overdue = overdue or 0 < segment.first_timestamp < now_ms - config.max_compaction_lag_ms
        found.append((segment, end))
    return found, overdue
