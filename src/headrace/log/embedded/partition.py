"""One partition: its segments, its three offsets, and the way of a batch in and out.

A batch is checked, stamped with its offset and written to the last segment in one go on the event loop. With `durability =
fsync` it then waits for the group commit, and only what is durable is shown to readers: nobody reads what a crash could take
back. With `flush` and `memory` it is readable at once.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.disk.port import Buffer
from headrace.log.embedded import compaction_manifest, definitions, times
from headrace.log.embedded.admission import (
    COMPRESSION,
    CONTROL,
    TRANSACTIONAL,
    Checked,
    check_from_client,
    check_timestamps,
    is_picky,
    prepare,
)
from headrace.log.embedded.archive.rows import TABLE as ARCHIVED
from headrace.log.embedded.commit import Write
from headrace.log.embedded.journal import BATCH, TRIM, Entry
from headrace.log.embedded.layout import index_of
from headrace.log.embedded.producers import Producers, marker_in
from headrace.log.embedded.reading import CachedReads, WouldWait, committed_part, read_waiting
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
from headrace.log.port import ActiveProducer, Changed, Durability, OpenTransaction, TimedOffset
from headrace.log.topic_config import TopicConfig
from headrace.record import BatchError, check_batch, check_records, stamp_append_time, stamp_batch
from headrace.record.control import EndTransactionMarker

if TYPE_CHECKING:
    from headrace.log.embedded.archive.parts import ArchivedPart
    from headrace.log.embedded.engine import EmbeddedLog

logger = logging.getLogger("headrace.log")

_FSYNC = Durability.FSYNC
_MAKE_ROOM = (definitions.TABLE, ARCHIVED)  # to delete a topic, or to archive it, must stay possible on a full disk
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
        "archived",
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
        "manifest",
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
        if size > config.max_message_bytes and not attributes & CONTROL:
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
        marker: EndTransactionMarker | None = None
        if producer_id >= 0:
            if sequence >= 0:
                last_sequence = (sequence + last_delta) & _LAST_SEQUENCE
                transactional = attributes & TRANSACTIONAL
                known = self.producers.duplicate_of(producer_id, epoch, sequence, last_sequence, transactional)
                if known is not None:
                    return known
            elif attributes & CONTROL:
                marker = marker_in(batch)
                if marker is not None:
                    self.producers.check_marker(producer_id, epoch, marker)
            else:
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
            producers = self.producers
            producers.note(producer_id, epoch, sequence, last_sequence, base_offset, now_ms, self.high_watermark)
            if attributes & TRANSACTIONAL:
                producers.note_transaction(producer_id, base_offset, marker)
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
        reserved = isinstance(refusal, DiskFull) and self.topic in _MAKE_ROOM
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

    def roll_for_cleaning(self) -> None:
        """Begins a new segment although nothing is to be written, so that a checkpoint can close the one before for good."""
        self.roll_now()
        if self.segments and self.high_watermark == self.end_offset and not self.pending_reserved:
            self.readable = (self.segments[-1], self.segments[-1].size)
        self.log.checkpoints.changed.add(self)

    def replace_segments(self, old: Sequence[Segment], copy: Segment) -> list[Segment]:
        """A cleaned copy stands for these segments from now on. Returns those that are needed no more: the old ones that were
        still there, or the copy, when all of them were trimmed meanwhile."""
        present = [segment for segment in old if segment in self.segments]
        if not present:
            return [copy]
        first = self.segments.index(present[0])
        self.segments[first : first + len(present)] = [copy]
        self.bases[first : first + len(present)] = [copy.base_offset]
        return present

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

    # --- forgetting

    async def trim(self, before: int) -> int:
        if before > self.high_watermark:
            raise OffsetOutOfRange(f"can't trim to {before}: the partition ends at {self.high_watermark}")
        if before > self.start_offset:
            self.note_trim(before)
            await self.log.synced()
            self.drop_segments()
            if self.archived is not None:
                self.archived.archive.trimmed(self)
        return self.start_offset

    def note_trim(self, before: int) -> None:
        refusal = self.log.refusal
        if refusal is not None and not isinstance(refusal, DiskFull):  # to trim is how a full disk gets room
            raise refusal.with_traceback(None)
        self.start_offset = before
        if self._producers is not None:
            self._producers.transactions.trimmed(before)
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

    def drop_archived(self, before: int) -> None:
        """Removes the local files of segments that lie wholly below an offset and are in the archive."""
        before = min(before, self.archived_end_offset)
        count = 0
        while count + 1 < len(self.segments) and self.bases[count + 1] <= before:
            count += 1
        gone = self.segments[:count]
        if gone:
            del self.segments[:count], self.bases[:count]
            self.log.remove_segments(self, gone)

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
    def dirty_bytes(self) -> int:
        if not self.config.compact:
            return 0
        clean = bisect_right(self.bases, max(self.manifest.dirty_offset, self.start_offset)) - 1  # segments before this one
        return sum(segment.size for segment in self.segments[max(0, clean) :])

    def paths_of(self, segment: Segment) -> tuple[str, str]:
        return segment.path, index_of(segment.path)

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
