"""The archive as the engine uses it: rows at a start, reads while it runs, and threads of its own for both directions.

Waiting for a store never takes a thread from local reads, from the commit or from the keeper: `readers` threads read, `copiers`
threads write and delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.disk.port import Buffer
from headrace.log.embedded.archive.archiver import Archiver
from headrace.log.embedded.archive.catalog import Catalog, Place, Rows
from headrace.log.embedded.archive.pace import Pace
from headrace.log.embedded.archive.parts import ArchivedPart
from headrace.log.embedded.archive.reader import ArchiveReader
from headrace.log.embedded.archive.rows import TABLE, ArchivedSegment
from headrace.log.embedded.archive.store import InThread, ObjectStore
from headrace.log.errors import OffsetOutOfRange, RecoveryFailed, StorageError
from headrace.log.port import TimedOffset

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog
    from headrace.log.embedded.partition import EmbeddedPartition
    from headrace.log.embedded.stored import StoredPartition
    from headrace.log.embedded.topics import EmbeddedTopic

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    store: ObjectStore
    cache_bytes: int = 64 * 1024 * 1024
    timeout_s: float = 10.0  # for a reader
    interval_s: float = 30.0  # between two looks at what could be archived
    readers: int = 10
    copiers: int = 2
    pace: Pace = field(default_factory=Pace)  # of all copies together
    in_thread: InThread | None = None  # for tests: instead of threads of its own


class Archive:
    def __init__(self, log: EmbeddedLog, options: ArchiveOptions, random_bytes: Callable[[int], bytes]) -> None:
        self._log = log
        self._options = options
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._known: Catalog | None = None
        self._unclaimed: dict[Place, list[ArchivedSegment]] = {}
        self.reader = ArchiveReader(options.store, log.clock, self.in_read_thread, options.cache_bytes, options.timeout_s)
        self.archiver = Archiver(
            log,
            options.store,
            self._catalog,
            lambda: ArchivedPart(self),
            self.in_copy_thread,
            interval_s=options.interval_s,
            copiers=options.copiers,
            pace=options.pace,
            random_bytes=random_bytes,
        )

    # --- a start and an end

    @staticmethod
    def restore(archive: Archive | None, rows: Rows, topics: Mapping[UUID, str]) -> Archive | None:
        """Takes what the table says; `claim` hands it to the partitions. A folder that needs its archive is not opened without
        it."""
        catalog = Catalog(rows)
        if archive is None:
            needed = sorted({topics[topic_id] for topic_id, _ in catalog.copied if topic_id in topics})
            if needed:
                names = ", ".join(needed[:5]) + (" and others" if needed[5:] else "")
                raise RecoveryFailed(f"a part of {names} is in an archive: say where it is (serve --archive URL)")
        else:
            archive._known = catalog
            archive._unclaimed = dict(catalog.copied)
            catalog.copied.clear()
        return archive

    def rows_of(self, place: Place) -> list[ArchivedSegment]:
        return self._unclaimed.get(place, [])

    def claim(self, partition: EmbeddedPartition) -> None:
        """Gives a partition that was restored what the archive holds of it."""
        rows = self._unclaimed.pop((partition.topic_id, partition.index), [])
        live = [row for row in rows if row.end_offset > partition.start_offset]
        self.archiver.give_up(row for row in rows if row.end_offset <= partition.start_offset)
        for one, following in pairwise(live):
            if one.end_offset != following.base_offset:
                raise RecoveryFailed(
                    f"the archive of {partition.topic}-{partition.index} ends at offset {one.end_offset} and goes on at "
                    f"{following.base_offset}: restore the folder from a copy"
                )
        if live:
            partition.archived = part = ArchivedPart(self)
            for row in live:
                part.add(row)

    def start(self) -> None:
        """What nobody claimed belongs to topics that were deleted."""
        for rows in self._unclaimed.values():
            self.archiver.give_up(rows)
        self._unclaimed.clear()
        self.archiver.start()

    async def close(self) -> None:
        self.archiver.stop()
        self.reader.close()
        for pool in self._pools.values():  # a call under way ends by itself, at the latest when its time is over
            await asyncio.get_running_loop().run_in_executor(None, partial(pool.shutdown, cancel_futures=True))

    async def _catalog(self) -> Catalog:
        if self._known is None:
            table = await self._log.table(TABLE)
            self._known = self._known or Catalog(table)
        return self._known

    def in_read_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._in_pool("read", self._options.readers, work)

    def in_copy_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return self._in_pool("copy", self._options.copiers, work)

    def _in_pool(self, name: str, threads: int, work: Callable[[], T]) -> Awaitable[T]:
        if self._options.in_thread is not None:
            return self._options.in_thread(work)
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = ThreadPoolExecutor(threads, f"headrace-archive-{name}")
        return asyncio.get_running_loop().run_in_executor(pool, work)

    # --- what happened to partitions

    def trimmed(self, partition: EmbeddedPartition) -> None:
        """The start of a partition moved, durably."""
        if partition.archived is not None:
            self.archiver.give_up(partition.archived.take_below(partition.start_offset))

    def deleted(self, topic: EmbeddedTopic) -> None:
        """A topic is gone, durably."""
        for partition in topic.partitions:
            if partition.archived is not None:
                self.archiver.give_up(partition.archived.take_below(partition.archived.end_offset))

    # --- reading

    def read(self, partition: StoredPartition, offset: int, max_bytes: int, at_least_one: bool) -> Buffer | Awaitable[Buffer]:
        """For an offset below the local part."""
        part = partition.archived
        if part is None or part.holding(offset) is None:
            raise StorageError(f"{partition.topic}-{partition.index}: offset {offset} is neither here nor in the archive")
        coming: Awaitable[Buffer] | None = None
        if not part.aborted_unknown:
            data = self.reader.read(part, offset, max_bytes, at_least_one)
            if not isinstance(data, Awaitable):
                return data
            coming = data
        later = self._read_later(partition, part, coming, offset, max_bytes, at_least_one)
        task = asyncio.get_running_loop().create_task(later)  # now: a fetch of many partitions waits for all at once
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _read_later(
        self,
        partition: StoredPartition,
        part: ArchivedPart,
        coming: Awaitable[Buffer] | None,
        offset: int,
        max_bytes: int,
        at_least_one: bool,
    ) -> Buffer:
        try:
            if part.aborted_unknown:
                known = await self.reader.aborted(list(part.segments))
                if part.aborted_unknown:
                    partition.producers.transactions.remember(known)
                    part.aborted_unknown = False
            if coming is None:
                found = self.reader.read(part, offset, max_bytes, at_least_one)
                data = await found if isinstance(found, Awaitable) else found
            else:
                data = await coming
            if len(data) or not partition.bases:
                return data
            found = partition.read(partition.bases[0], max_bytes, at_least_one=at_least_one)  # compaction once left a gap
            return await found if isinstance(found, Awaitable) else found
        except StorageError:
            if offset < partition.start_offset:
                raise OffsetOutOfRange(f"offset {offset} was just removed by retention") from None
            raise

    async def first_at(self, partition: StoredPartition, timestamp_ms: int) -> TimedOffset | None:
        return await self.reader.first_at(self._not_local(partition), timestamp_ms, partition.start_offset)

    async def newest(self, partition: StoredPartition) -> TimedOffset | None:
        return await self.reader.newest(self._not_local(partition), partition.start_offset)

    def _not_local(self, partition: StoredPartition) -> list[ArchivedSegment]:
        part, local = partition.archived, partition.bases[0] if partition.bases else partition.end_offset
        return [row for row in part.segments if row.base_offset < local] if part is not None else []
