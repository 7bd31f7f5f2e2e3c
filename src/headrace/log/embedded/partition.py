"""One partition as it is written: the way of a batch in, and of old segments out. `stored` has the rest.

A batch is checked, stamped with its offset and written to the last segment in one go on the event loop. With `durability =
fsync` it then waits for the group commit, and only what is durable is shown to readers: nobody reads what a crash could take
back. Where whoever appends waits for that as well, and the disk has nothing to do, it is written while the disk is at work
(`commit`). With `flush` and `memory` it is readable at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.embedded import definitions
from headrace.log.embedded.admission import (
    COMPRESSION,
    CONTROL,
    NO_LIMIT_MS,
    TRANSACTIONAL,
    Checked,
    check_from_client,
    check_timestamps,
    prepare,
)
from headrace.log.embedded.archive.rows import TABLE as ARCHIVED
from headrace.log.embedded.commit import Write
from headrace.log.embedded.journal import BATCH, TRIM, Entry
from headrace.log.embedded.producers import marker_in
from headrace.log.embedded.saving import load_producers
from headrace.log.embedded.segment import Segment
from headrace.log.embedded.stored import StoredPartition
from headrace.log.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    OffsetOutOfRange,
    PartitionSealed,
    StorageError,
)
from headrace.log.port import Durability
from headrace.record import BatchError, check_batch, check_records, stamp_append_time, stamp_batch
from headrace.record.control import EndTransactionMarker

if TYPE_CHECKING:
    pass

logger = logging.getLogger("headrace.log")

_FSYNC = Durability.FSYNC
_MAKE_ROOM = (definitions.TABLE, ARCHIVED)  # to delete a topic, or to archive it, must stay possible on a full disk
_LAST_SEQUENCE = 0x7FFF_FFFF
_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF
_WORTH_REMOVING = 1024 * 1024


class EmbeddedPartition(StoredPartition):
    __slots__ = ()

    # --- appending

    def append(self, batch: bytearray | memoryview, *, waits: bool = False) -> int:
        return self.append_checked(batch, check_from_client(batch), waits=waits)

    def append_own(self, batch: bytearray, count: int, timestamp_ms: int) -> int:
        return self.append_checked(batch, (0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count))

    def append_control(self, batch: bytearray) -> int:
        """For the broker's own markers."""
        return self.append_checked(batch, check_batch(batch, 0, len(batch)))

    def append_after_journal(self, batch: bytearray, *, dry: bool = False) -> int:
        """Like `append`, for writes that must happen together: the segment is written once the journal has them all. A dry one
        only raises what could be raised."""
        try:
            checked = check_batch(batch, 0, len(batch))
            if not checked[0] & COMPRESSION:
                check_records(batch, checked[7])
        except BatchError as error:
            raise CorruptBatch(str(error)) from None
        return self.append_checked(batch, checked, after_journal=True, dry=dry)

    def append_checked(
        self,
        batch: bytearray | memoryview,
        checked: Checked,
        *,
        waits: bool = False,
        after_journal: bool = False,
        dry: bool = False,
    ) -> int:
        attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = checked
        log = self.log
        if log.refusal is not None or self.broken:
            self._refuse()
        size = len(batch)
        now_ms = log.clock.now_ms()
        if size > self._plain_bytes or not 0 <= max_timestamp <= now_ms + self._ahead_ms:
            batch, max_timestamp = self._admit(batch, attributes, max_timestamp, now_ms)
            size = len(batch)
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
        if self.sealed and not attributes & CONTROL:  # after the retry of what is there was told so
            raise PartitionSealed(self.sealed)
        base_offset = self.end_offset
        stamp_batch(batch, 0, base_offset, self.leader_epoch)
        commit = log.commit
        behind = waits and self.durability is _FSYNC and commit.quiet
        if commit.behind and not behind:
            commit.write_behind()  # nothing may stand in a file before what has an earlier place in it
            if log.refusal is not None:
                self._refuse()
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
                behind = False
            elif behind:
                segment.file()  # what can't be opened is told now
                segment.reserve(size, base_offset, max_timestamp)
            else:
                segment.append(batch, base_offset, max_timestamp)
        except OSError as error:
            raise log.storage_error(error) from error
        log.checkpoints.changed[self] = None
        end_offset = self.end_offset = base_offset + last_delta + 1
        self._last_batch = (base_offset, position)
        if producer_id >= 0:
            producers = self.producers
            producers.note(producer_id, epoch, sequence, last_sequence, base_offset, now_ms, self.high_watermark)
            if attributes & TRANSACTIONAL:
                producers.note_transaction(producer_id, base_offset, marker)
            self.producers_changed = True
        if after_journal or self.durability is _FSYNC:
            commit.add(
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
                behind=behind,
            )
        else:
            self._has_unsynced = True
            self.high_watermark = end_offset
            self.readable = (segment, position + size)
            if self.watchers:
                self.tell_watchers()
        return base_offset

    def seal(self, reason: str) -> None:
        self.sealed = reason

    def unseal(self) -> None:
        self.sealed = ""

    def _admit(
        self, batch: bytearray | memoryview, attributes: int, max_timestamp: int, now_ms: int
    ) -> tuple[bytearray | memoryview, int]:
        """What the topic's settings have to say about a batch: it is refused, or as it will be stored, with its largest
        timestamp."""
        config = self.config
        size = len(batch)
        if size > config.max_message_bytes and not attributes & CONTROL:
            raise BatchTooLarge(f"a batch of {size} bytes, where max.message.bytes allows {config.max_message_bytes}")
        if self._picky and not attributes & CONTROL:
            batch = prepare(batch, attributes, config)
        if config.log_append_time:
            stamp_append_time(batch, 0, len(batch), now_ms)
            max_timestamp = self.append_time_ms = now_ms
        elif (
            now_ms - max_timestamp > config.message_timestamp_before_max_ms
            or max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or config.message_timestamp_before_max_ms != NO_LIMIT_MS
        ):
            check_timestamps(batch, config, now_ms)
        return batch, max_timestamp

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
            if segment.first_timestamp < 0:
                if segment.size:
                    segment.learn_timestamps()
                else:
                    segment.first_timestamp = timestamp_ms
            if (
                segment.size + size <= self.config.segment_bytes
                and last_offset - segment.base_offset <= _MAX_RELATIVE_OFFSET
                and (segment.first_timestamp < 0 or timestamp_ms - segment.first_timestamp <= self._max_segment_ms)
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
        self.log.checkpoints.changed[self] = None

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

    def learn_producers(self) -> None:
        """After a crash: reads what recovery has just read, and the next checkpoint saves what was found."""
        if self.producers_from < self.restored_end:
            try:
                self._producers = load_producers(self)
            except (StorageError, OSError):
                return  # whoever appends will be told
            self.log.checkpoints.changed[self] = None

    # --- the commit

    def now_durable(self, write: Write) -> None:
        if write.after_journal:
            self.pending_reserved -= write.entry.kind == BATCH
        if write.entry.kind == BATCH and write.end_offset > self.high_watermark:
            self.high_watermark = write.end_offset
            self.readable = (write.segment, write.end_position)

    # --- forgetting

    async def trim(self, before: int) -> int:
        if before > self.high_watermark:
            raise OffsetOutOfRange(f"can't trim to {before}: the partition ends at {self.high_watermark}")
        if before > self.start_offset:
            if before == self.high_watermark == self.end_offset and self.segments and self.segments[-1].size > _WORTH_REMOVING:
                self.roll_for_cleaning()  # so that the last segment can go, too
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
        self.log.checkpoints.changed[self] = None  # the next checkpoint must say so: the journal forgets it
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

    # --- the checkpoint

    def checkpoint_failed(self) -> None:
        """What was to be saved is still to be saved."""
        self.producers_changed = self._producers is not None and bool(self._producers.by_id)

    def expire_producers(self, before_ms: int) -> None:
        if self._producers is not None and self._producers.by_id:
            self._producers.expire(before_ms)
