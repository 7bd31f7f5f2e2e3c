"""One partition: its segments, its three offsets, and the way of a batch in and out.

A batch is checked, stamped with its offset and written to the last segment in one go on the event loop. With `durability =
fsync` it then waits for the group commit, and only what is durable is shown to readers: nobody reads what a crash could take
back. With `flush` and `memory` it is readable at once.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.disk.port import Buffer
from headrace.log.embedded import definitions, times
from headrace.log.embedded.admission import (
    COMPRESSION,
    CONTROL,
    Checked,
    check_from_client,
    check_timestamps,
    is_picky,
    prepare,
)
from headrace.log.embedded.commit import Write
from headrace.log.embedded.journal import BATCH, TRIM, Entry
from headrace.log.embedded.layout import index_path
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.reading import CachedReads, WouldWait, read_waiting
from headrace.log.embedded.saving import load_producers
from headrace.log.embedded.segment import Segment
from headrace.log.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    OffsetOutOfRange,
    StorageError,
)
from headrace.log.port import ActiveProducer, Changed, Durability, TimedOffset
from headrace.log.topic_config import TopicConfig
from headrace.record import BatchError, check_batch, check_records, stamp_append_time, stamp_batch

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

logger = logging.getLogger("headrace.log")

_FSYNC = Durability.FSYNC
_LAST_SEQUENCE = 0x7FFF_FFFF
_NO_LIMIT_MS = 0x7FFF_FFFF_FFFF_FFFF
_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF


class EmbeddedPartition:
    __slots__ = (
        "_has_unsynced",
        "_last_batch",
        "_picky",
        "_producers",
        "append_time_ms",
        "bases",
        "broken",
        "checkpointed_base",
        "config",
        "copies_wanted",
        "durability",
        "end_offset",
        "folder",
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "pending_reserved",
        "producers_changed",
        "producers_from",
        "readable",
        "restored_end",
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
        self.config = config
        self.durability = config.durability
        self.copies_wanted = config.min_insync_replicas
        self._picky = is_picky(config)
        self.append_time_ms = -1
        self.leader_epoch = 0
        self.start_offset = self.high_watermark = self.end_offset = 0
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

    # --- appending

    def append(self, batch: bytearray | memoryview) -> int:
        return self._append(batch, check_from_client(batch))

    def append_control(self, batch: bytearray) -> int:
        """For the broker's own markers."""
        return self._append(batch, check_batch(batch, 0, len(batch)))

    def append_after_journal(self, batch: bytearray, *, dry: bool = False) -> int:
        """Like `append`, for writes that must happen together: the segment is written once the journal has them all. A dry one
        only raises what could be raised."""
        try:
            checked = check_batch(batch, 0, len(batch))
            if not checked[0] & COMPRESSION:
                check_records(batch, checked[7])
        except BatchError as error:
            raise CorruptBatch(str(error)) from None
        return self._append(batch, checked, after_journal=True, dry=dry)

    def _append(
        self,
        batch: bytearray | memoryview,
        checked: Checked,
        after_journal: bool = False,
        dry: bool = False,
    ) -> int:
        attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = checked
        log = self.log
        config = self.config
        if log.refusal is not None or self.broken:
            self._refuse()
        size = len(batch)
        if size > config.max_message_bytes:
            raise BatchTooLarge(f"a batch of {size} bytes, where max.message.bytes allows {config.max_message_bytes}")
        now_ms = log.clock.now_ms()
        if self._picky and not attributes & CONTROL:
            batch = prepare(batch, attributes, config)
            size = len(batch)
        if config.log_append_time:
            stamp_append_time(batch, 0, size, now_ms)
            max_timestamp = self.append_time_ms = now_ms
        elif (
            now_ms - max_timestamp > config.message_timestamp_before_max_ms
            or max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or config.message_timestamp_before_max_ms != _NO_LIMIT_MS
        ):
            check_timestamps(batch, config, now_ms)
        last_sequence = -1
        if producer_id >= 0:
            if sequence >= 0:
                last_sequence = (sequence + last_delta) & _LAST_SEQUENCE
                known = self.producers.duplicate_of(producer_id, epoch, sequence, last_sequence)
                if known is not None:
                    return known
            elif not attributes & CONTROL:
                raise InvalidBatch("an idempotent producer's batch without a sequence number")
        base_offset = self.end_offset
        stamp_batch(batch, 0, base_offset, self.leader_epoch)
        if after_journal and self.durability is Durability.MEMORY:
            after_journal = False
        elif self.pending_reserved:
            after_journal = True
        try:
            segment = self._segment_for_write(size, base_offset + last_delta, max_timestamp, now_ms)
            position = segment.size
            if dry:
                return len(segment.index)  # loaded, so that nothing is left that could fail
            if after_journal:
                segment.reserve(size, base_offset, max_timestamp)
                self.pending_reserved += 1
            else:
                segment.append(batch, base_offset, max_timestamp)
        except OSError as error:
            raise log.storage_error(error) from error
        log.checkpoints.changed.add(self)
        end_offset = self.end_offset = base_offset + last_delta + 1
        self._last_batch = (base_offset, position)
        if producer_id >= 0:
            self.producers.note(producer_id, epoch, sequence, last_sequence, base_offset, now_ms)
            self.producers_changed = True
        if after_journal or self.durability is _FSYNC:
            log.commit.add(
                Write(
                    self,
                    segment,
                    Entry(BATCH, self.topic_id, self.index, segment.base_offset, position, bytes(batch)),
                    end_offset,
                    position + size,
                    after_journal,
                    self._take_unsynced() if self._has_unsynced else (),
                ),
                urgent=bool(self.watchers),
            )
        else:
            self._has_unsynced = True
            self.high_watermark = end_offset
            self.readable = (segment, position + size)
            if self.watchers:
                self.tell_watchers()
        return base_offset

    def _take_unsynced(self) -> tuple[Segment, ...]:
        """Segments with batches that no group commit has covered: a durable batch behind them needs them on disk first."""
        if not self._has_unsynced:
            return ()
        self._has_unsynced = False
        return tuple(s for s in self.segments if s.base_offset >= self.checkpointed_base)

    def _refuse(self) -> None:
        refusal = self.log.refusal
        reserved = isinstance(refusal, DiskFull) and self.topic == definitions.TABLE  # to delete a topic must stay possible
        if refusal is not None and not reserved:
            raise refusal.with_traceback(None)
        if self.broken:
            raise StorageError(self.broken)

    def _segment_for_write(self, size: int, last_offset: int, timestamp_ms: int, now_ms: int) -> Segment:
        segments = self.segments
        if segments:
            segment = segments[-1]
            config = self.config
            if segment.first_timestamp < 0:
                if segment.size:
                    segment.learn_timestamps()
                else:
                    segment.first_timestamp = timestamp_ms
            if (
                segment.size + size <= config.segment_bytes
                and last_offset - segment.base_offset <= _MAX_RELATIVE_OFFSET
                and (segment.first_timestamp < 0 or timestamp_ms - segment.first_timestamp <= config.max_segment_ms)
            ) or segment.size == 0:
                return segment
        return self._roll(timestamp_ms)

    def _roll(self, timestamp_ms: int) -> Segment:
        segment = Segment(self.log.files_for(self), self.folder, self.end_offset, self.config.index_interval_bytes)
        segment.first_timestamp = timestamp_ms
        if self.segments:
            self.segments[-1].sealed = True
        self.segments.append(segment)
        self.bases.append(self.end_offset)
        return segment

    def roll_now(self) -> None:
        """Begins a new segment, unless the last one is empty; so that the one before can be removed."""
        if self.segments and self.segments[-1].size:
            self._roll(-1)

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

    def learn_producers(self) -> None:
        """After a crash: reads what recovery has just read, and the next checkpoint saves what was found."""
        if self.producers_from < self.restored_end:
            try:
                self._producers = load_producers(self)
            except (StorageError, OSError):
                return  # whoever appends will be told
            self.log.checkpoints.changed.add(self)

    # --- the commit

    def now_durable(self, write: Write) -> None:
        if write.after_journal:
            self.pending_reserved -= write.entry.kind == BATCH
        if write.entry.kind == BATCH and write.end_offset > self.high_watermark:
            self.high_watermark = write.end_offset
            self.readable = (write.segment, write.end_position)

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

    # --- reading

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Buffer | Awaitable[Buffer]:
        if offset < self.start_offset or offset > self.end_offset:
            if self.broken and offset > self.end_offset:
                raise StorageError(self.broken)  # perhaps it was there: no reason for a reader to go elsewhere
            raise OffsetOutOfRange(f"offset {offset} is outside {self.start_offset} to {self.end_offset}")
        if offset >= self.high_watermark:
            if self.broken:
                raise StorageError(self.broken)
            return b""
        segment = self.segments[bisect_right(self.bases, offset) - 1]
        limit = self.readable[1] if segment is self.readable[0] else segment.size
        base, position = self._last_batch
        try:
            if 0 <= base <= offset and segment is self.segments[-1] and limit - position <= max_bytes:
                data = segment.file().read_cached(position, limit - position)  # a reader at the tail: the newest batch
                if data is not None:
                    return data
            return segment.read(CachedReads(segment), offset, max_bytes, limit, at_least_one)
        except WouldWait:
            return self.log.in_thread(lambda: read_waiting(segment, offset, max_bytes, limit, at_least_one))
        except FileNotFoundError as error:
            raise OffsetOutOfRange(f"offset {offset} was just removed by retention") from error
        except OSError as error:
            raise self.log.storage_error(error) from error

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        if not self.start_offset <= offset < self.high_watermark:
            return 0
        number = bisect_right(self.bases, offset) - 1
        segment, limit = self.readable
        total = 0
        for found in self.segments[number:]:
            begin = found.index.before_offset(offset - found.base_offset)[1] if found.base_offset <= offset else 0
            total += max(0, (limit if found is segment else found.size) - begin)
            if total >= max_bytes or found is segment:
                break
        return min(total, max_bytes)

    def active_producers(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(producer_id, producer.epoch, producer.last_sequence, producer.last_timestamp_ms)
            for producer_id, producer in self.producers.by_id.items()
        ]

    async def offset_at(self, timestamp_ms: int) -> TimedOffset | None:
        segments = self._readable_segments()
        start, end = self.start_offset, self.high_watermark
        return await self.log.in_thread(lambda: times.first_at(segments, timestamp_ms, start, end))

    async def latest_timestamp(self) -> TimedOffset | None:
        segments = self._readable_segments()
        start, end = self.start_offset, self.high_watermark
        return await self.log.in_thread(lambda: times.newest(segments, start, end))

    def _readable_segments(self) -> list[Segment]:
        self.learn_last_segment()
        return [s for s in self.segments if s.base_offset < self.high_watermark]

    def learn_last_segment(self) -> None:
        """Other threads may look at the timestamps afterwards: see `segment`."""
        if self.segments:
            self.segments[-1].learn_timestamps()

    # --- forgetting

    async def trim(self, before: int) -> int:
        if before > self.high_watermark:
            raise OffsetOutOfRange(f"can't trim to {before}: the partition ends at {self.high_watermark}")
        if before > self.start_offset:
            self.note_trim(before)
            await self.log.synced()
            self.drop_segments()
        return self.start_offset

    def note_trim(self, before: int) -> None:
        refusal = self.log.refusal
        if refusal is not None and not isinstance(refusal, DiskFull):  # to trim is how a full disk gets room
            raise refusal.with_traceback(None)
        self.start_offset = before
        self.log.checkpoints.changed.add(self)  # the next checkpoint must say so: the journal forgets it
        if self.durability is not Durability.MEMORY:
            entry = Entry(TRIM, self.topic_id, self.index, 0, before, b"")
            self.log.commit.add(Write(self, None, entry, 0, 0, after_journal=True), urgent=False)

    def drop_segments(self) -> None:
        """Removes the files of segments that lie wholly below the start; the trim must be durable."""
        count = 0
        while count + 1 < len(self.segments) and self.bases[count + 1] <= self.start_offset:
            count += 1
        gone = self.segments[:count]
        if gone:
            del self.segments[:count], self.bases[:count]
            self.log.remove_segments(self, gone)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def paths_of(self, segment: Segment) -> tuple[str, str]:
        return segment.path, index_path(self.folder, segment.base_offset)

    # --- the checkpoint

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.durability = config.durability
        self.copies_wanted = config.min_insync_replicas
        self._picky = is_picky(config)
        self.append_time_ms = -1

    def checkpoint_failed(self) -> None:
        """What was to be saved is still to be saved."""
        self.producers_changed = self._producers is not None and bool(self._producers.by_id)

    def expire_producers(self, before_ms: int) -> None:
        if self._producers is not None and self._producers.by_id:
            self._producers.expire(before_ms)
