"""A partition as it is stored and read: its segments, its offsets, what it remembers of producers.

Only what is durable, as far as the topic promises it, is shown to readers: nobody reads what a crash could take back. Reads
that find their bytes in memory answer at once; those that must ask the disk or the archive return an awaitable. The way of a
batch into the partition is `partition`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.disk.port import Buffer, FilePart
from headrace.log.embedded import compaction_manifest, describing, times
from headrace.log.embedded.admission import is_picky, plain_bytes
from headrace.log.embedded.layout import index_of
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.reading import CachedReads, WouldWait, committed_part, read_waiting
from headrace.log.embedded.saving import load_producers
from headrace.log.embedded.segment import Segment
from headrace.log.errors import (
    OffsetOutOfRange,
    StorageError,
)
from headrace.log.port import PART_BYTES, ActiveProducer, Changed, OpenTransaction, StoredSegment, TimedOffset
from headrace.log.topic_config import TopicConfig

if TYPE_CHECKING:
    from headrace.log.embedded.archive.parts import ArchivedPart
    from headrace.log.embedded.engine import EmbeddedLog

logger = logging.getLogger("headrace.log")


class StoredPartition:
    __slots__ = (
        "_ahead_ms",
        "_has_unsynced",
        "_last_batch",
        "_max_segment_ms",
        "_picky",
        "_plain_bytes",
        "_producers",
        "append_time_ms",
        "archived",
        "bases",
        "broken",
        "checkpointed_base",
        "config",
        "durability",
        "end_offset",
        "folder",
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "manifest",
        "pending_reserved",
        "producers_changed",
        "producers_from",
        "readable",
        "restored_end",
        "sealed",
        "segments",
        "start_offset",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(self, log: EmbeddedLog, topic: str, topic_id: UUID, index: int, folder: str, config: TopicConfig) -> None:
        self.log = log
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.folder = folder
        self.configure(config)
        self.leader_epoch = 0
        self.start_offset = self.high_watermark = self.end_offset = 0
        self.archived: ArchivedPart | None = None  # what lies in the archive; the newest of it may be here, too
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.readable: tuple[Segment | None, int] = (None, 0)  # readers stop in this segment, at this position
        self._last_batch: tuple[int, int] = (-1, 0)  # base offset and position of the newest batch
        self._producers: Producers | None = Producers()
        self.producers_from = 0  # below it the saved state of producers is right, also when there is none
        self.restored_end = 0
        self.producers_changed = False
        self.checkpointed_base = 0  # segments before it are synced and indexed for good
        self._has_unsynced = False  # `durability = flush` wrote here since the last group commit
        self.pending_reserved = 0  # writes that reach their segment only after the journal has them
        self.watchers: list[Changed] = []
        self.broken = ""  # what recovery found wrong, when it must not guess
        self.sealed = ""  # why clients may write here no more
        self.manifest = compaction_manifest.NONE  # which segments are cleaned copies

    def restore(self, segments: list[Segment], start_offset: int, end_offset: int, producers_from: int) -> None:
        """Takes what a checkpoint or recovery knows."""
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.start_offset = start_offset
        self.end_offset = self.high_watermark = end_offset
        for segment in segments[:-1]:
            segment.sealed = True
        if segments:
            self.readable = (segments[-1], segments[-1].size)
            self.checkpointed_base = segments[-1].base_offset
        self._producers = None  # read when somebody asks
        self.producers_from, self.restored_end = producers_from, end_offset

    @property
    def producers(self) -> Producers:
        if self._producers is None:
            try:
                self._producers = load_producers(self)
            except OSError as error:
                raise self.log.storage_error(error) from error
        return self._producers

    @property
    def producers_saved(self) -> bool:
        """What is known of producers is in their file, or nothing is."""
        if self._producers is None:
            return self.producers_from >= self.restored_end
        return not self.producers_changed

    def watch(self, changed: Changed) -> None:
        self.watchers.append(changed)
        if self.high_watermark < self.end_offset:
            self.log.commit.hurry()

    def unwatch(self, changed: Changed) -> None:
        self.watchers.remove(changed)

    def tell_watchers(self) -> None:
        for changed in tuple(self.watchers):
            try:
                changed()
            except Exception:  # neither the writer nor the others who watch may suffer from it
                logger.exception("somebody who watches %s-%d failed", self.topic, self.index)

    @property
    def last_stable_offset(self) -> int:
        producers = self._producers
        if producers is None:
            producers = self.producers
        if not producers.transactions.unsettled:
            return self.high_watermark
        return max(self.start_offset, producers.transactions.stable_end(self.high_watermark))

    def aborted(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        return self.producers.transactions.aborted(from_offset, to_offset)

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, committed: bool = False
    ) -> Buffer | Awaitable[Buffer]:
        if committed and (stable := self.last_stable_offset) < self.high_watermark:
            if self.start_offset <= stable <= offset <= self.end_offset:
                return b""
            return committed_part(self.read(offset, max_bytes, at_least_one=at_least_one), stable)
        if offset < self.start_offset or offset > self.end_offset:
            if self.broken and offset > self.end_offset:
                raise StorageError(self.broken)  # perhaps it was there: no reason for a reader to go elsewhere
            raise OffsetOutOfRange(f"offset {offset} is outside {self.start_offset} to {self.end_offset}")
        if offset >= self.high_watermark:
            if self.broken:
                raise StorageError(self.broken)
            return b""
        number = bisect_right(self.bases, offset) - 1
        if number < 0 and self.archived is not None:
            return self.archived.archive.read(self, offset, max_bytes, at_least_one)
        segment = self.segments[number]
        limit = self.readable[1] if segment is self.readable[0] else segment.size
        base, position = self._last_batch
        try:
            if 0 <= base <= offset and segment is self.segments[-1] and limit - position <= max_bytes:
                newest = segment.file().read_cached(position, limit - position)  # a reader at the tail: the newest batch
                if newest is not None:
                    return newest
            data = segment.read(CachedReads(segment), offset, max_bytes, limit, at_least_one)
            if data is None:  # the offset lies behind the last batch of a cleaned copy: what follows begins the next segment
                segment = self.segments[number + 1]
                limit = self.readable[1] if segment is self.readable[0] else segment.size
                data = segment.read(CachedReads(segment), offset, max_bytes, limit, at_least_one)
            return data or b""
        except WouldWait:
            return self._read_later(number, offset, max_bytes, at_least_one)
        except FileNotFoundError as error:
            raise OffsetOutOfRange(f"offset {offset} was just removed by retention") from error
        except OSError as error:
            raise self.log.storage_error(error) from error

    def part(self, offset: int, max_bytes: int, *, committed: bool = False) -> FilePart | None:
        if not self.start_offset <= offset < self.high_watermark or self.broken:
            return None
        number = bisect_right(self.bases, offset) - 1
        if number < 0 or (committed and self.last_stable_offset < self.high_watermark):
            return None
        segment = self.segments[number]
        limit = self.readable[1] if segment is self.readable[0] else segment.size
        try:
            found = segment.part(CachedReads(segment), offset, max_bytes, limit, PART_BYTES)
            return segment.file().part_in_memory(*found) if found is not None else None
        except (WouldWait, OSError):
            return None

    def _read_later(self, number: int, offset: int, max_bytes: int, at_least_one: bool) -> Awaitable[Buffer]:
        readable, end = self.readable
        segments = [(s, end if s is readable else s.size) for s in self.segments[number : number + 2]]
        reading = self.log.in_thread(lambda: read_waiting(segments, offset, max_bytes, at_least_one))

        async def result() -> Buffer:
            try:
                return await reading
            except FileNotFoundError:  # the segment was trimmed, or a cleaned copy stands for it now
                data = self.read(offset, max_bytes, at_least_one=at_least_one)
                return await data if isinstance(data, Awaitable) else data

        return result()

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        if not self.start_offset <= offset < self.high_watermark:
            return 0
        number = max(0, bisect_right(self.bases, offset) - 1)
        segment, limit = self.readable
        total = 0
        if self.archived is not None:
            total = self.archived.bytes_from(offset, self.bases[0] if self.bases else self.end_offset, max_bytes)
            if total >= max_bytes:
                return max_bytes
        for found in self.segments[number:]:
            begin = found.index.before_offset(offset - found.base_offset)[1] if found.base_offset <= offset else 0
            total += max(0, (limit if found is segment else found.size) - begin)
            if total >= max_bytes or found is segment:
                break
        return min(total, max_bytes)

    def active_producers(self) -> list[ActiveProducer]:
        producers = self.producers
        return [
            ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producers.transactions.open.get(producer_id, -1),
            )
            for producer_id, producer in producers.by_id.items()
        ]

    def open_transactions(self) -> list[OpenTransaction]:
        producers = self.producers
        return [
            OpenTransaction(self.topic, self.index, producer_id, producer.epoch, producer.coordinator_epoch, first)
            for producer_id, first in producers.transactions.open.items()
            if (producer := producers.by_id.get(producer_id)) is not None
        ]

    async def offset_at(self, timestamp_ms: int) -> TimedOffset | None:
        segments = self._readable_segments()
        start, end = self.start_offset, self.high_watermark
        if self.archived is not None:
            found = await self.archived.archive.first_at(self, timestamp_ms)
            if found is not None:
                return found
        try:
            return await self.log.in_thread(lambda: times.first_at(segments, timestamp_ms, start, end))
        except FileNotFoundError:  # a segment was trimmed, or left for the archive
            if segments[:1] == self.segments[:1]:
                raise
            return await self.offset_at(timestamp_ms)

    async def latest_timestamp(self) -> TimedOffset | None:
        segments = self._readable_segments()
        start, end = self.start_offset, self.high_watermark
        older = await self.archived.archive.newest(self) if self.archived is not None else None
        try:
            found = await self.log.in_thread(lambda: times.newest(segments, start, end))
        except FileNotFoundError:  # a segment was trimmed, or left for the archive
            if segments[:1] == self.segments[:1]:
                raise
            return await self.latest_timestamp()
        if older is not None and (found is None or older.timestamp_ms >= found.timestamp_ms):
            return older
        return found

    def _readable_segments(self) -> list[Segment]:
        self.learn_last_segment()
        return [s for s in self.segments if s.base_offset < self.high_watermark]

    def learn_last_segment(self) -> None:
        """Other threads may look at the timestamps afterwards: see `segment`."""
        if self.segments:
            self.segments[-1].learn_timestamps()

    @property
    def local_start_offset(self) -> int:
        return max(self.start_offset, self.bases[0] if self.bases else self.end_offset)

    @property
    def archives(self) -> bool:
        return self.config.remote_storage_enable

    @property
    def archived_end_offset(self) -> int:
        return self.archived.end_offset if self.archived is not None else -1

    @property
    def archived_bytes(self) -> int:
        return self.archived.size_bytes if self.archived is not None else 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    async def stored_segments(self, after: int, most: int) -> list[StoredSegment]:
        return await describing.stored_segments(self, after, most)

    @property
    def dirty_bytes(self) -> int:
        if not self.config.compact:
            return 0
        clean = bisect_right(self.bases, max(self.manifest.dirty_offset, self.start_offset)) - 1  # segments before this one
        return sum(segment.size for segment in self.segments[max(0, clean) :])

    def paths_of(self, segment: Segment) -> tuple[str, str]:
        return segment.path, index_of(segment.path)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.durability = config.durability
        self.append_time_ms = -1
        self._picky = is_picky(config)
        self._plain_bytes = plain_bytes(config)
        self._ahead_ms = config.message_timestamp_after_max_ms
        self._max_segment_ms = config.max_segment_ms
