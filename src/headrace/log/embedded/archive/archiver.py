"""The work in the background: copy closed segments, let go of local copies, delete what nobody needs.

One pass at a time, every `interval_s` and when somebody has something new for it. A segment is copied when it is closed, lies
wholly below the last stable offset and before the checkpoint: then its bytes are synced, no journal frame concerns it, and no
transaction in it is open. Segments of a partition are copied in order, several partitions side by side.

When the store fails, the pass ends, a line in the log says so, and the next one waits: a second, then twice as long each time,
up to two minutes, less a random part of it. Nothing that is not archived leaves the disk meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.log.embedded.archive.copying import Damaged, Stopped, copy_segment
from headrace.log.embedded.archive.local import let_go
from headrace.log.embedded.archive.pace import Pace
from headrace.log.embedded.archive.rows import TABLE, UNIQUE_BYTES, ArchivedSegment
from headrace.log.embedded.archive.store import InThread, ObjectStore, StoreError
from headrace.log.embedded.layout import segment_path
from headrace.log.errors import StorageError

if TYPE_CHECKING:
    from headrace.log.embedded.archive.catalog import Catalog
    from headrace.log.embedded.archive.parts import ArchivedPart
    from headrace.log.embedded.archive.side import Aborted
    from headrace.log.embedded.engine import EmbeddedLog
    from headrace.log.embedded.partition import EmbeddedPartition
    from headrace.log.embedded.segment import Segment

logger = logging.getLogger("headrace.archive")

_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 120.0
_DELETED_AT_ONCE = 32


class Archiver:
    def __init__(
        self,
        log: EmbeddedLog,
        store: ObjectStore,
        catalog: Callable[[], Awaitable[Catalog]],
        new_part: Callable[[], ArchivedPart],
        in_thread: InThread,
        *,
        interval_s: float,
        copiers: int,
        pace: Pace,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._log = log
        self._store = store
        self._catalog = catalog
        self._new_part = new_part
        self._in_thread = in_thread
        self._interval_s = interval_s
        self._copiers = copiers
        self._pace = pace
        self._random_bytes = random_bytes
        self._given_up: list[ArchivedSegment] = []  # rows that still say COPIED, of segments that nobody needs
        self._damaged: set[EmbeddedPartition] = set()
        self._running = False
        self._again = False
        self._failures = 0
        self._stopping = False

    # --- when

    def start(self) -> None:
        self._schedule(0.0 if self._given_up else min(1.0, self._interval_s))

    def stop(self) -> None:
        self._stopping = True

    def wake(self) -> None:
        """There is something to do; not while the store is given time to recover."""
        if self._running:
            self._again = True
        elif not self._failures:
            self._schedule(0.0)

    def give_up(self, rows: Iterable[ArchivedSegment]) -> None:
        """What these name in the archive may go; that nobody needs it any more must be durable."""
        found = list(rows)
        if found:
            self._given_up += found
            self.wake()

    def _schedule(self, delay_s: float) -> None:
        if not self._stopping:
            self._log.schedule("archive", delay_s, lambda: self._log.spawn(self.run()))

    async def run(self) -> None:
        """One pass."""
        if self._running or self._stopping:
            self._again = True
            return
        self._running, self._again = True, False
        delay_s = self._interval_s
        try:
            await self._pass()
            if self._failures:
                logger.warning("the archive can be written again")
            self._failures = 0
        except StoreError as error:
            delay_s = self._after_failure(error)
        except StorageError as error:
            logger.warning("the archive waits for this disk: %s", error)
        finally:
            self._running = False
            self._schedule(0.0 if self._again and not self._failures else delay_s)

    def _after_failure(self, error: StoreError) -> float:
        longest = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * (1 << min(self._failures, 20)))
        delay_s = longest * (0.5 + int.from_bytes(self._random_bytes(2), "big") / 0x20000)
        self._failures += 1
        self._log.upkeep.archive_failures += 1
        logger.warning(
            "the archive can't be written: %s. What is not archived stays on this disk; next try in %.1f s", error, delay_s
        )
        return delay_s

    async def _pass(self) -> None:
        failed: StoreError | None = None
        await self._turn_off()
        await self._doom()
        try:
            await self._delete()
        except StoreError as error:
            failed = error
        await self._copy()
        if failed is not None:
            raise failed

    # --- deleting

    async def _turn_off(self) -> None:
        """Topics whose archive was turned off, with what it held (KIP-950): the local part is all that is left."""
        for partition in self._partitions():
            part, config = partition.archived, partition.config
            if part is not None and part.segments and not config.remote_storage_enable and config.remote_log_delete_on_disable:
                await partition.trim(min(partition.local_start_offset, partition.high_watermark))
                self._given_up += part.take_below(part.end_offset)

    async def _doom(self) -> None:
        if self._given_up:
            catalog = await self._catalog()
            rows = list(self._given_up)
            catalog.doom(rows)
            del self._given_up[: len(rows)]
            await self._log.synced()

    async def _delete(self) -> None:
        if self._log.topics().get(TABLE) is None:
            return  # nothing was ever archived
        catalog = await self._catalog()
        waiting = list(catalog.doomed.values())
        while waiting:
            some, waiting = waiting[:_DELETED_AT_ONCE], waiting[_DELETED_AT_ONCE:]

            await self._in_thread(partial(self._delete_objects, some))
            catalog.forget(some)
            await self._log.synced()

    def _delete_objects(self, rows: Iterable[ArchivedSegment]) -> None:
        for row in rows:
            self._store.delete(row.log_key)
            self._store.delete(row.side_key)

    # --- copying

    def _partitions(self) -> list[EmbeddedPartition]:
        return [p for topic in self._log.topics().values() if not topic.internal for p in topic.partitions if not p.broken]

    async def _copy(self) -> None:
        await self._copy_what_is_safe()
        if any(self._next(partition, checkpointed=False) for partition in self._wanted()):
            await self._log.checkpoints.run()
            await self._copy_what_is_safe()

    def _wanted(self) -> list[EmbeddedPartition]:
        return [p for p in self._partitions() if _takes_copies(p) and p not in self._damaged]

    async def _copy_what_is_safe(self) -> None:
        queue = deque(partition for partition in self._wanted() if self._next(partition))
        failures: list[StoreError] = []

        async def copier() -> None:
            while queue and not failures and not self._stopping:
                partition = queue.popleft()
                try:
                    copied = await self._copy_next(partition)
                except StoreError as error:
                    failures.append(error)
                    return
                if copied and self._next(partition):
                    queue.append(partition)

        await asyncio.gather(*(copier() for _ in range(min(self._copiers, len(queue)))))
        if failures:
            raise failures[0]

    def _next(self, partition: EmbeddedPartition, *, checkpointed: bool = True) -> tuple[Segment, int] | None:
        """The next segment to copy, and the offset behind it."""
        part = partition.archived
        segments = partition.segments
        row = self._log.checkpoints.rows.get((partition.topic_id, partition.index))
        safe_before = row.segment_base if row is not None else 0
        for segment, following in pairwise(segments):
            if following.base_offset <= partition.start_offset:
                continue  # it was the last one when the start moved behind it
            if part is not None and part.segments and segment.base_offset < part.end_offset:
                continue
            if part is not None and not part.follows(segment.base_offset):
                return None
            if following.base_offset > _stable_end(partition) or not segment.size:
                return None
            if segment.path != segment_path(partition.folder, segment.base_offset):
                return None  # a copy that compaction made, of a time when the topic was compacted: it stays here
            if checkpointed and segment.base_offset >= safe_before:
                return None
            return segment, following.base_offset
        return None

    async def _copy_next(self, partition: EmbeddedPartition) -> bool:
        found = self._next(partition)
        if found is None or not _takes_copies(partition):
            return False
        segment, end_offset = found
        catalog = await self._catalog()
        row = ArchivedSegment.beginning(
            partition.topic,
            partition.topic_id,
            partition.index,
            segment.base_offset,
            end_offset,
            segment.size,
            self._random_bytes(UNIQUE_BYTES),
        )
        aborted = partition.producers.transactions.ended_between(segment.base_offset, end_offset)
        catalog.begin(row)
        await self._log.synced()
        try:
            copied = await self._in_thread(partial(self._copy_segment, segment, row, aborted))
        except Stopped:
            return False  # the row says what to remove at the next start
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError | StoreError | Damaged | OSError):
                raise
            self._given_up.append(row)
            if isinstance(error, StoreError | asyncio.CancelledError):
                raise
            if isinstance(error, Damaged):
                self._damaged.add(partition)
                logger.error("%s-%d is archived no further: %s", partition.topic, partition.index, error)
            return False  # otherwise the file is gone, or can't be read: what that means is for others to say
        return await self._copied(partition, segment, copied, catalog)

    def _copy_segment(self, segment: Segment, row: ArchivedSegment, aborted: Sequence[Aborted]) -> ArchivedSegment:
        return copy_segment(self._store, segment, row, aborted, self._pace, lambda: self._stopping)

    async def _copied(self, partition: EmbeddedPartition, segment: Segment, row: ArchivedSegment, catalog: Catalog) -> bool:
        """Commits a copy, unless nobody wants it any more."""
        if not self._fits(partition, segment, row):
            self._given_up.append(row)
            return False
        catalog.finish(row)
        await self._log.synced()
        if not self._fits(partition, segment, row):
            self._given_up.append(row)
            return False
        if partition.archived is None:
            partition.archived = self._new_part()
        partition.archived.add(row)
        self._log.upkeep.archived_segments += 1
        self._log.upkeep.archived_bytes += row.size
        await let_go(self._log, partition)
        return True

    def _fits(self, partition: EmbeddedPartition, segment: Segment, row: ArchivedSegment) -> bool:
        """Whether a copy that was just made is still the next one of its partition."""
        part = partition.archived
        return (
            not partition.broken  # as the partitions of a deleted topic are
            and segment in partition.segments
            and partition.start_offset < row.end_offset
            and partition.config.remote_storage_enable
            and (part.follows(row.base_offset) if part is not None else True)
        )


def _stable_end(partition: EmbeddedPartition) -> int:
    try:
        return partition.last_stable_offset
    except StorageError:  # what is known of transactions can't be read: whoever reads committed records is told
        return 0


def _takes_copies(partition: EmbeddedPartition) -> bool:
    return partition.config.remote_storage_enable and not partition.config.remote_log_copy_disable
