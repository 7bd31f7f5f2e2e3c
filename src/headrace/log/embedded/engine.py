"""The embedded engine as a whole: the topics of one folder, and everything that keeps them.

`EmbeddedLog.open` locks the folder and recovers it; `close` leaves it clean. In between, the event loop appends and reads, the
commit thread syncs (`commit`), the keeper thread writes checkpoints and removes files, and two timers run: one for
checkpoints and free space, one for retention.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from headrace.clock import Clock, Timer
from headrace.disk.memory import MemoryDisk
from headrace.disk.port import Disk, FolderLocked
from headrace.log.embedded import definitions
from headrace.log.embedded.archive.rows import TABLE as ARCHIVED
from headrace.log.embedded.checkpoint import Checkpoint, SyncFailed, read_checkpoint
from headrace.log.embedded.checkpoints import Checkpoints
from headrace.log.embedded.commit import LIMIT_BYTES, GroupCommit
from headrace.log.embedded.compaction import CleanerSettings, Compaction
from headrace.log.embedded.definitions import Definition
from headrace.log.embedded.files import OpenFiles
from headrace.log.embedded.journal import NO_SPACE, Journal
from headrace.log.embedded.layout import PRODUCERS, TOPICS
from headrace.log.embedded.lease import TABLE as LEASES
from headrace.log.embedded.lease import EmbeddedLease
from headrace.log.embedded.opening import Opening
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.retention import apply_retention, expired_before
from headrace.log.embedded.segment import Segment
from headrace.log.embedded.stored import StoredPartition
from headrace.log.embedded.table import EmbeddedTable
from headrace.log.embedded.threads import ThreadWorker, Worker
from headrace.log.embedded.topics import EmbeddedTopic, Topics
from headrace.log.errors import (
    BatchTooLarge,
    DiskFull,
    FolderInUse,
    ReadOnly,
    RecoveryFailed,
    StorageError,
)
from headrace.log.port import Durability, OpenTransaction, StorageInfo, Synced, Upkeep
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.log.embedded.archive.archive import Archive, ArchiveOptions

logger = logging.getLogger("headrace.log")
T = TypeVar("T")

_INTERNAL = {"cleanup.policy": "compact", "max.message.bytes": str(256 * 1024 * 1024), "retention.ms": "-1"}
_CHECKPOINT_EVERY_S = 30.0
_ROOMY_BYTES = 256 * 1024 * 1024  # free beside the reserve: more than is written until that is looked at again
_SPACE_EVERY_S = 1.0


class EmbeddedLog:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        *,
        defaults: Mapping[str, str] | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        commit_worker: Worker | None = None,
        keeper: Worker | None = None,
        max_open_files: int = 512,
        journal_file_bytes: int = 64 * 1024 * 1024,
        journal_files: int = 3,
        reserve_bytes: int = 16 * 1024 * 1024,
        retention_interval_s: float = 300.0,
        producer_expiration_ms: int = 86_400_000,
        folder: str = "",
        archive: ArchiveOptions | None = None,
        cleaner: CleanerSettings | None = None,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.folder = folder
        self.files = OpenFiles(disk, max_open_files)
        self.refusal: StorageError | None = None  # why writes are refused, if they are
        self.upkeep = Upkeep()
        self.closed = False
        self._closing = False
        self.commit: GroupCommit
        self.checkpoints: Checkpoints
        self._memory_files = OpenFiles(MemoryDisk(), 1 << 30)
        self._random_bytes = random_bytes
        self._topics = Topics(self, defaults or {}, random_bytes)
        self._commit_worker = commit_worker
        self._keeper = keeper
        self._journal_shape = (journal_file_bytes, journal_files)
        self._reserve_bytes = reserve_bytes
        self._retention_interval_s = retention_interval_s
        self._was_clean = True  # the last end left nothing to recover
        self._producer_expiration_ms = producer_expiration_ms
        self._tables: dict[tuple[str, int], EmbeddedTable] = {}
        self._timers: dict[str, Timer] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.archive: Archive | None = None
        if archive is not None:
            from headrace.log.embedded.archive.archive import Archive  # a server without one does not load it

            self.archive = Archive(self, archive, random_bytes)
        self.compaction = Compaction(self, cleaner or CleanerSettings(), random_bytes, reserve_bytes)
        self._pool: ThreadPoolExecutor | None = None

    # --- opening and closing

    @classmethod
    def open(cls, disk: Disk, clock: Clock, **options: Any) -> EmbeddedLog:
        """Locks and recovers the folder. Runs on the event loop's thread and may take as long as recovery takes."""
        log = cls(disk, clock, **options)
        try:
            disk.lock()
        except FolderLocked as error:
            raise FolderInUse(str(error)) from None
        try:
            log._open()
        except BaseException as error:
            for worker in (log._commit_worker, log._keeper):
                if worker is not None:
                    worker.close()
            log.files.close()
            disk.unlock()
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise DiskFull("the folder can't be opened: its disk is full. Make room and start again") from error
            raise
        return log

    def _open(self) -> None:
        checkpoint = read_checkpoint(self.disk)
        if checkpoint is None:
            if self.disk.list(TOPICS):
                raise RecoveryFailed("the folder has topics but no checkpoint file: restore it from a copy")
            checkpoint = Checkpoint(self._random_bytes(8), 1, clean=True, rows={})
        self.checkpoints = Checkpoints(self, checkpoint.key)
        opening = Opening.of(self.disk, self.files, checkpoint)
        loop = None
        if self._commit_worker is None or self._keeper is None:
            loop = asyncio.get_running_loop()
            self._commit_worker = self._commit_worker or ThreadWorker("headrace-commit", loop)
            self._keeper = self._keeper or ThreadWorker("headrace-keeper", loop)
        else:  # whoever gives workers holds time still: no other thread then
            self.compaction.worker = self._keeper
        size, count = self._journal_shape
        journal = Journal(self.disk, key=checkpoint.key, next_sequence=opening.next_sequence, file_bytes=size, files=count)
        self.commit = GroupCommit(
            journal=journal,
            files=self.files,
            disk=self.disk,
            clock=self.clock,
            worker=self._commit_worker,
            keeper=self._keeper,
            failed=self.sync_failed,
            wants_checkpoint=self.checkpoint_soon,
        )
        self._measure_space()
        self._restore_topics(opening)
        self._was_clean = checkpoint.clean
        self.checkpoints.begin(opening.next_sequence, opening.broken)
        if opening.recovered:
            logger.warning("recovered %d partitions after an unclean end", opening.recovered)
        self.schedule("space", _SPACE_EVERY_S, self._check_space)
        self.schedule("checkpoint", _CHECKPOINT_EVERY_S, self.checkpoint_soon)
        self.schedule("retention", self._retention_interval_s, lambda: self.spawn(self.apply_retention()))
        self.compaction.start()
        if self.archive is not None:
            self.archive.start()

    def _restore_topics(self, opening: Opening) -> None:
        topics = self._topics
        own = topics.install(Definition(definitions.TABLE, definitions.TABLE_ID, 1, _INTERNAL, internal=True)).partitions[0]
        opening.restore(own)
        if own.broken:
            raise RecoveryFailed(f"the table of topics is damaged: {own.broken}")
        try:
            topics.definitions = EmbeddedTable(self, own)
        except StorageError as error:
            raise RecoveryFailed(f"the table of topics is damaged: {error}") from error
        self._tables[definitions.TABLE, 0] = topics.definitions
        found = [Definition.of(key, value) for key, value in topics.definitions.items()]
        for definition in sorted(found, key=lambda one: one.name != ARCHIVED):  # it says what need not be on this disk
            topic = topics.install(definition)
            if topic.resolved.durability is not Durability.MEMORY:
                for partition in topic.partitions:
                    opening.restore(partition)
            if definition.name == ARCHIVED:
                self._restore_archive(opening, topic.partitions[0], {one.topic_id: one.name for one in found})
        opening.remove_orphans({topic_id: len(topic.partitions) for topic_id, topic in topics.by_id.items()})

    def _restore_archive(self, opening: Opening, partition: EmbeddedPartition, names: Mapping[UUID, str]) -> None:
        try:
            table = self._tables[ARCHIVED, 0] = EmbeddedTable(self, partition)
        except StorageError as error:
            raise RecoveryFailed(f"the table of archived segments is damaged: {error}") from error
        from headrace.log.embedded.archive.archive import Archive

        opening.archive = Archive.restore(self.archive, table, names)

    async def close(self) -> None:
        """Makes everything durable and leaves a clean checkpoint."""
        if self.closed or self._closing:
            return
        self._closing = True
        if not isinstance(self.refusal, ReadOnly):
            self.refusal = StorageError("the log is closing")
        for timer in self._timers.values():
            timer.cancel()
        self.checkpoints.hurry()
        async with self.checkpoints.running:  # one that runs must be heard to its end: a sync in it may fail
            for task in self._tasks:
                task.cancel()
        if self.archive is not None:
            await self.archive.close()
        self.commit.close()
        try:
            if not isinstance(self.refusal, ReadOnly):
                await self.synced()
                await self.checkpoints.run(clean=True)
        finally:
            self.closed = True
            for worker in (self._commit_worker, self.compaction.worker, self._keeper):
                if worker is not None:
                    worker.close()
            if self._pool is not None:
                self._pool.shutdown()
            self.commit.journal.close()
            self.files.close()
            self.disk.unlock()

    # --- topics

    def set_defaults(self, defaults: Mapping[str, str]) -> None:
        """Server-wide settings changed: topics that set nothing of their own follow."""
        self._topics.set_defaults(defaults)

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        topic_id: UUID | None = None,
        internal: bool = False,
    ) -> EmbeddedTopic:
        topic = self._topics.create(name, partitions, config or {}, topic_id, internal)
        await self.synced()
        return topic

    def define_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str],
        *,
        internal: bool = True,
        topic_id: UUID | None = None,
    ) -> EmbeddedTopic:
        return self._topics.create(name, partitions, config, topic_id, internal)

    def drop_topic(self, name: str) -> None:
        self.spawn(self._remove(self._topics.delete(name)))

    async def add_partitions(self, name: str, total: int, *, sealed: str = "") -> None:
        self._topics.grow(name, total, sealed)
        await self.synced()

    async def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        self._topics.configure(name, config)
        await self.synced()
        if self.archive is not None:
            self.archive.archiver.wake()

    async def delete_topic(self, name: str) -> None:
        await self._remove(self._topics.delete(name))

    async def _remove(self, topic: EmbeddedTopic) -> None:
        for place in [place for place in self._tables if place[0] == topic.name]:
            del self._tables[place]
        for partition in topic.partitions:
            self.checkpoints.forget(partition)
        await self.synced()
        await self.compaction.left(topic.partitions)
        for partition in topic.partitions:
            partition.tell_watchers()
            for segment in partition.segments:
                for path in partition.paths_of(segment):
                    self.files_for(partition).forget(path)
            self.files.forget(f"{partition.folder}/{PRODUCERS}")
        if self.archive is not None:
            self.archive.deleted(topic)
        disk = self._memory_files.disk if topic.resolved.durability is Durability.MEMORY else self.disk
        self._in_background(lambda: disk.remove_folder(topic.folder))

    def topics(self) -> Mapping[str, EmbeddedTopic]:
        return self._topics.by_name

    def topic_by_id(self, topic_id: UUID) -> EmbeddedTopic | None:
        return self._topics.by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> EmbeddedPartition | None:
        found = self._topics.by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def files_for(self, partition: StoredPartition) -> OpenFiles:
        return self._memory_files if partition.durability is Durability.MEMORY else self.files

    # --- durability

    def after_sync(self, synced: Synced, *, now: bool = False) -> None:
        if isinstance(self.refusal, ReadOnly) and self.commit.idle:
            synced(self.refusal.with_traceback(None))
        else:
            self.commit.after(synced, now=now)

    async def synced(self) -> None:
        future = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error if isinstance(error, StorageError) else self.storage_error(error))

        self.after_sync(done)
        await future

    @property
    def backlogged(self) -> bool:
        """More waits for the disk than may: stop reading from producers until `after_sync`."""
        return self.commit.waiting_bytes >= LIMIT_BYTES

    def append_together(self, writes: Sequence[tuple[EmbeddedPartition, bytearray]]) -> list[int]:
        """All of these writes become durable in one frame, or none does."""
        if sum(len(batch) for _, batch in writes) > LIMIT_BYTES:
            raise BatchTooLarge(f"more than {LIMIT_BYTES} bytes to be written together")
        for partition, batch in writes:
            partition.append_after_journal(batch, dry=True)
        with self.commit.together():
            return [partition.append_after_journal(batch) for partition, batch in writes]

    def storage_error(self, error: Exception) -> StorageError:
        """What to raise for an error of the disk while writing or reading."""
        if isinstance(error, StorageError):
            return error
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return DiskFull("no space left on the disk")
        return StorageError(str(error))

    def sync_failed(self, error: Exception) -> None:
        if not isinstance(self.refusal, ReadOnly):
            self.refusal = ReadOnly(f"a sync failed ({error}); read-only until the server is started again")
            logger.critical("%s", self.refusal)
            self.commit.stop(self.refusal)

    def _check_space(self) -> None:
        if not isinstance(self.refusal, ReadOnly):
            free = self._measure_space()
            if free < self._reserve_bytes and self.refusal is None:
                self.refusal = DiskFull(f"{free} bytes are free, {self._reserve_bytes} are kept in reserve")
                logger.error("writes are refused: %s", self.refusal)
                self.spawn(self.apply_retention())  # perhaps something may go
                if self.archive is not None:
                    self.archive.archiver.wake()
            elif free >= self._reserve_bytes and isinstance(self.refusal, DiskFull):
                self.refusal = None
                logger.warning("there is room on the disk again: writes go on")
        self.schedule("space", _SPACE_EVERY_S, self._check_space)

    def _measure_space(self) -> int:
        free = self.disk.free_bytes()
        self.commit.roomy = free >= self._reserve_bytes + _ROOMY_BYTES
        return free

    # --- checkpoints

    def checkpoint_soon(self) -> None:
        self.schedule("checkpoint", _CHECKPOINT_EVERY_S, self.checkpoint_soon)
        if self._closing:
            if self.commit.refused is not None:
                self.spawn(self._make_room())
        elif self.checkpoints.running.locked():
            self.checkpoints.hurry()  # the journal has filled one more file meanwhile, or has no room at all
        elif self.checkpoints.needed:
            self.spawn(self.checkpoints.run())

    async def _make_room(self) -> None:
        """While the log closes, writes that wait for room in the journal get it, or are told that there is none."""
        floor = self.commit.journal.floor
        try:
            await self.checkpoints.run()
        finally:
            self.commit.try_again(made_room=self.commit.journal.floor > floor)

    # --- retention

    async def apply_retention(self) -> None:
        """One pass over all partitions; the event loop gets its turn after each."""
        self.schedule("retention", self._retention_interval_s, lambda: self.spawn(self.apply_retention()))
        now_ms = self.clock.now_ms()
        for topic in list(self._topics.by_name.values()):
            for partition in topic.partitions:
                if (partition.segments or partition.archived) and not partition.broken:
                    partition.expire_producers(now_ms - self._producer_expiration_ms)
                    if not topic.internal:
                        partition.learn_last_segment()
                        before = await self.in_thread(partial(expired_before, partition, now_ms))
                        await apply_retention(partition, before)
                        if partition.archived is not None:
                            from headrace.log.embedded.archive.local import let_go

                            await let_go(self, partition)

    def remove_segments(self, partition: EmbeddedPartition, segments: Sequence[Segment]) -> None:
        files = self.files_for(partition)
        disk = files.disk
        paths = [path for segment in segments for path in partition.paths_of(segment)]
        for path in paths:
            files.forget(path)

        def job() -> None:
            for path in paths:
                try:
                    disk.remove(path)
                except FileNotFoundError:
                    continue

        self._in_background(job)

    # --- transactions

    def open_transactions(self) -> list[OpenTransaction]:
        if self._was_clean:
            return []
        found = []
        for topic in self._topics.by_name.values():
            for partition in topic.partitions:
                if not topic.internal and partition.end_offset:
                    try:
                        found += partition.open_transactions()
                    except StorageError as error:
                        logger.error("transactions of %s-%d are not known: %s", partition.topic, partition.index, error)
        return found

    # --- tables and leases

    async def table(self, name: str, slot: int = 0) -> EmbeddedTable:
        existing = self._tables.get((name, slot))
        if existing is not None:
            return existing
        topic = self._topics.by_name.get(name)
        if topic is None:
            topic = await self.create_topic(name, slot + 1, _INTERNAL, internal=True)
        elif slot >= len(topic.partitions):
            await self.add_partitions(name, slot + 1)
        existing = self._tables.get((name, slot))  # somebody else may have come while this one waited
        if existing is None:
            existing = self._tables[name, slot] = EmbeddedTable(self, topic.partitions[slot])
        return existing

    async def leases(self, group: str, table: str) -> AsyncIterator[EmbeddedLease]:
        tokens = await self.table(LEASES)
        await self.table(table)
        for slot in range(len(self._topics.by_name[table].partitions)):
            name = f"{group}/{table}/{slot}"
            token = int(tokens.get(name.encode()) or b"0") + 1
            tokens.put({name.encode(): str(token).encode()})
            await self.synced()
            yield EmbeddedLease(self, name, token, await self.table(table, slot))

    # --- the machine room

    @property
    def sync_times(self) -> Times:
        return self.commit.times

    def storage(self) -> StorageInfo:
        return StorageInfo(self.folder, self.disk.total_bytes(), self.disk.free_bytes(), *self.commit.journal.room())

    def in_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        """For reads that may wait for the disk."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(4, "headrace-read")
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("work in the background failed: %s", error, exc_info=error)

    async def keeper_job(self, job: Callable[[], None]) -> None:
        future = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if not future.done():
                future.set_exception(error) if error is not None else future.set_result(None)
            elif isinstance(error, SyncFailed):  # nobody waits for it any more, but it must not be lost
                self.sync_failed(error)

        assert self._keeper is not None
        self._keeper.submit(job, done)
        await future

    def _in_background(self, job: Callable[[], None]) -> None:
        def done(error: Exception | None) -> None:
            if error is not None:
                logger.error("could not remove files: %s", error)

        assert self._keeper is not None
        self._keeper.submit(job, done)

    def schedule(self, name: str, delay_s: float, callback: Callable[[], None]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        if not self.closed:
            self._timers[name] = self.clock.call_later(delay_s, callback)
