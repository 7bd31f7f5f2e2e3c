"""One partition: its segments, its three offsets, and the way of a batch in and out.

A batch is checked, stamped with its offset and written to the last segment in one go on the event loop. With `durability =
fsync` it then waits for the group commit, and only what is durable is shown to readers: nobody reads what a crash could take
back. With `flush` and `memory` it is readable at once.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.disk.port import Buffer
from headrace.log.embedded import definitions
from headrace.log.embedded.checkpoint import Row, SyncFailed, replace_file
from headrace.log.embedded.commit import Write
from headrace.log.embedded.journal import BATCH, NO_SPACE, TRIM, Entry
from headrace.log.embedded.layout import PRODUCERS, index_path
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.segment import Found, Segment
from headrace.log.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    InvalidTimestamp,
    OffsetOutOfRange,
    StorageError,
)
from headrace.log.port import ActiveProducer, Changed, Durability, TimedOffset
from headrace.log.topic_config import TopicConfig
from headrace.record import (
    BatchError,
    InconsistentBatch,
    UnsupportedMagic,
    check_batch,
    check_records,
    stamp_append_time,
    stamp_batch,
)
from headrace.record.batch import Record, decode_batch

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

logger = logging.getLogger("headrace.log")

_COMPRESSION = 0x07
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_FSYNC = Durability.FSYNC
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "", "", "")
_LAST_SEQUENCE = 0x7FFF_FFFF
_MAX_LOOKED_INTO_BYTES = 32 * 1024 * 1024  # of what a client compressed
_NO_LIMIT_MS = 0x7FFF_FFFF_FFFF_FFFF
_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF


class EmbeddedPartition:
    __slots__ = (
        "_bases",
        "_checkpointed_base",
        "_has_unsynced",
        "_last_batch",
        "_log",
        "_picky",
        "_producers",
        "_producers_from",
        "_readable",
        "_restored_end",
        "append_time_ms",
        "broken",
        "config",
        "copies_wanted",
        "durability",
        "end_offset",
        "folder",
        "high_watermark",
        "index",
        "leader_epoch",
        "pending_reserved",
        "producers_changed",
        "segments",
        "start_offset",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(self, log: EmbeddedLog, topic: str, topic_id: UUID, index: int, folder: str, config: TopicConfig) -> None:
        self._log = log
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.folder = folder
        self.config = config
        self.durability = config.durability
        self.copies_wanted = config.min_insync_replicas
        self._picky = config.compact or config.compression_type != "producer"
        self.append_time_ms = -1
        self.leader_epoch = 0
        self.start_offset = self.high_watermark = self.end_offset = 0
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self._readable: tuple[Segment | None, int] = (None, 0)  # readers stop in this segment, at this position
        self._last_batch: tuple[int, int] = (-1, 0)  # base offset and position of the newest batch
        self._producers: Producers | None = Producers()
        self._producers_from = 0  # below it the saved state of producers is right, also when there is none
        self._restored_end = 0
        self.producers_changed = False
        self._checkpointed_base = 0  # segments before it are synced and indexed for good
        self._has_unsynced = False  # `durability = flush` wrote here since the last group commit
        self.pending_reserved = 0  # writes that reach their segment only after the journal has them
        self.watchers: list[Changed] = []
        self.broken = ""  # what recovery found wrong, when it must not guess

    def restore(self, segments: list[Segment], start_offset: int, end_offset: int, producers_from: int) -> None:
        """Takes what a checkpoint or recovery knows."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.start_offset = start_offset
        self.end_offset = self.high_watermark = end_offset
        for segment in segments[:-1]:
            segment.sealed = True
        if segments:
            self._readable = (segments[-1], segments[-1].size)
            self._checkpointed_base = segments[-1].base_offset
        self._producers = None  # read when somebody asks
        self._producers_from, self._restored_end = producers_from, end_offset

    # --- appending

    def append(self, batch: bytearray | memoryview) -> int:
        try:
            checked = check_batch(batch, 0, len(batch))
            if not checked[0] & _COMPRESSION:
                check_records(batch, checked[7])
        except (InconsistentBatch, UnsupportedMagic) as error:
            raise InvalidBatch(str(error)) from None
        except BatchError as error:
            raise CorruptBatch(str(error)) from None
        attributes = checked[0]
        if attributes & _CONTROL:
            raise InvalidBatch("clients may not write control batches")
        if attributes & _COMPRESSION >= len(_CODECS):
            raise InvalidBatch("a compression that does not exist")
        return self._append(batch, checked)

    def append_control(self, batch: bytearray) -> int:
        """For the broker's own markers."""
        return self._append(batch, check_batch(batch, 0, len(batch)))

    def append_after_journal(self, batch: bytearray, *, dry: bool = False) -> int:
        """Like `append`, for writes that must happen together: the segment is written once the journal has them all. A dry one
        only raises what could be raised."""
        try:
            checked = check_batch(batch, 0, len(batch))
            if not checked[0] & _COMPRESSION:
                check_records(batch, checked[7])
        except BatchError as error:
            raise CorruptBatch(str(error)) from None
        return self._append(batch, checked, after_journal=True, dry=dry)

    def _append(
        self,
        batch: bytearray | memoryview,
        checked: tuple[int, int, int, int, int, int, int, int],
        after_journal: bool = False,
        dry: bool = False,
    ) -> int:
        attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = checked
        log = self._log
        config = self.config
        if log.refusal is not None or self.broken:
            self._refuse()
        size = len(batch)
        if size > config.max_message_bytes:
            raise BatchTooLarge(f"a batch of {size} bytes, where max.message.bytes allows {config.max_message_bytes}")
        now_ms = log.clock.now_ms()
        if self._picky and not attributes & _CONTROL:
            batch = self._prepare(batch, attributes)
            size = len(batch)
        if config.log_append_time:
            stamp_append_time(batch, 0, size, now_ms)
            max_timestamp = self.append_time_ms = now_ms
        elif (
            now_ms - max_timestamp > config.message_timestamp_before_max_ms
            or max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or config.message_timestamp_before_max_ms != _NO_LIMIT_MS
        ):
            _check_timestamps(batch, config, now_ms)
        last_sequence = -1
        if producer_id >= 0:
            if sequence >= 0:
                last_sequence = (sequence + last_delta) & _LAST_SEQUENCE
                known = self.producers.duplicate_of(producer_id, epoch, sequence, last_sequence)
                if known is not None:
                    return known
            elif not attributes & _CONTROL:
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
        log.changed.add(self)
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
            self._readable = (segment, position + size)
            if self.watchers:
                self.tell_watchers()
        return base_offset

    def _prepare(self, batch: bytearray | memoryview, attributes: int) -> bytearray | memoryview:
        """What few topics ask for: keys in every record, another compression than the producer's."""
        config = self.config
        try:
            if config.compact and any(r.key is None for r in decode_batch(batch, max_size=_MAX_LOOKED_INTO_BYTES)):
                raise InvalidBatch("a compacted topic takes only records with a key")
            codec = config.compression_type
            if codec not in ("producer", _CODECS[attributes & _COMPRESSION]):
                batch = self._log.recompress(batch, config, _MAX_LOOKED_INTO_BYTES)
        except BatchError as error:
            raise InvalidBatch(f"the records can't be read: {error}") from None
        if len(batch) > config.max_message_bytes:
            raise BatchTooLarge(f"{len(batch)} bytes as stored, where max.message.bytes allows {config.max_message_bytes}")
        return batch

    def _take_unsynced(self) -> tuple[Segment, ...]:
        """Segments with batches that no group commit has covered: a durable batch behind them needs them on disk first."""
        if not self._has_unsynced:
            return ()
        self._has_unsynced = False
        return tuple(s for s in self.segments if s.base_offset >= self._checkpointed_base)

    def _refuse(self) -> None:
        refusal = self._log.refusal
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
        segment = Segment(self._log.files_for(self), self.folder, self.end_offset, self.config.index_interval_bytes)
        segment.first_timestamp = timestamp_ms
        if self.segments:
            self.segments[-1].sealed = True
        self.segments.append(segment)
        self._bases.append(self.end_offset)
        return segment

    def roll_now(self) -> None:
        """Begins a new segment, unless the last one is empty; so that the one before can be removed."""
        if self.segments and self.segments[-1].size:
            self._roll(-1)

    @property
    def producers(self) -> Producers:
        if self._producers is None:
            try:
                self._producers = self._load_producers()
            except OSError as error:
                raise self._log.storage_error(error) from error
        return self._producers

    def learn_producers(self) -> None:
        """After a crash: reads what recovery has just read, and the next checkpoint saves what was found."""
        if self._producers_from < self._restored_end:
            try:
                self._producers = self._load_producers()
            except (StorageError, OSError):
                return  # whoever appends will be told
            self._log.changed.add(self)

    def _load_producers(self) -> Producers:
        """The saved state, brought up to date with the batches behind it; all batches when what was saved is of no use."""
        loaded: tuple[Producers, int] | None
        try:
            file = self._log.files_for(self).get(f"{self.folder}/{PRODUCERS}")
            loaded = Producers.load(file.read(0, file.size()))
        except FileNotFoundError:
            loaded = Producers(), self._producers_from
        if loaded is None or loaded[1] > self._restored_end:
            loaded = Producers(), self.start_offset
        else:
            loaded = loaded[0], max(loaded[1], self._producers_from)
        producers, from_offset = loaded
        if from_offset < self.start_offset:
            producers.forget_sequences()
        now_ms = self._log.clock.now_ms()
        for segment, found in self.batches(max(from_offset, self.start_offset), self._restored_end):
            header = segment.content(found)[:61]
            producer_id = int.from_bytes(header[43:51], "big", signed=True)
            if producer_id >= 0:
                epoch = int.from_bytes(header[51:53], "big", signed=True)
                sequence = int.from_bytes(header[53:57], "big", signed=True)
                last = (sequence + found[2] - found[1]) & _LAST_SEQUENCE if sequence >= 0 else -1
                producers.note(producer_id, epoch, sequence, last, found[1], now_ms)
                self.producers_changed = True
        return producers

    # --- the commit

    def now_durable(self, write: Write) -> None:
        if write.after_journal:
            self.pending_reserved -= write.entry.kind == BATCH
        if write.entry.kind == BATCH and write.end_offset > self.high_watermark:
            self.high_watermark = write.end_offset
            self._readable = (write.segment, write.end_position)

    def watch(self, changed: Changed) -> None:
        self.watchers.append(changed)
        if self.high_watermark < self.end_offset:
            self._log.commit.hurry()

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
        segment = self.segments[bisect_right(self._bases, offset) - 1]
        limit = self._readable[1] if segment is self._readable[0] else segment.size
        base, position = self._last_batch
        try:
            if 0 <= base <= offset and segment is self.segments[-1] and limit - position <= max_bytes:
                data = segment.file().read_cached(position, limit - position)  # a reader at the tail: the newest batch
                if data is not None:
                    return data
            return segment.read(_CachedReads(segment), offset, max_bytes, limit, at_least_one)
        except _WouldWait:
            return self._log.in_thread(lambda: _read_blocking(segment, offset, max_bytes, limit, at_least_one))
        except FileNotFoundError as error:
            raise OffsetOutOfRange(f"offset {offset} was just removed by retention") from error
        except OSError as error:
            raise self._log.storage_error(error) from error

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        if not self.start_offset <= offset < self.high_watermark:
            return 0
        number = bisect_right(self._bases, offset) - 1
        segment, limit = self._readable
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

    def batches(self, offset: int, end: int | None = None) -> Iterator[tuple[Segment, Found]]:
        """Every batch from the one that holds `offset` to the end, or to another offset. Blocks on the disk. Raises
        StorageError when one of them can't be read."""
        if end is None:
            end = self.end_offset
        if offset >= end:
            return
        number, expected = max(0, bisect_right(self._bases, offset) - 1), -1
        while expected < end:
            if number >= len(self.segments):
                raise StorageError(f"{self.folder} can't be read from offset {max(expected, offset)} on")
            segment = self.segments[number]
            for found in segment.batches_from(*segment.index.before_offset(max(0, offset - segment.base_offset))):
                if found[1] >= end:
                    return
                if expected not in (-1, found[1]):
                    raise StorageError(f"{segment.path} goes on at offset {found[1]} instead of {expected}")
                expected = found[2] + 1
                if found[2] >= offset:
                    yield segment, found
            number += 1

    async def offset_at(self, timestamp_ms: int) -> TimedOffset | None:
        self.learn_last_segment()
        return await self._log.in_thread(lambda: self._find_time(timestamp_ms))

    def learn_last_segment(self) -> None:
        """Other threads may look at the timestamps afterwards: see `segment`."""
        if self.segments:
            self.segments[-1].learn_timestamps()

    async def latest_timestamp(self) -> TimedOffset | None:
        self.learn_last_segment()

        def find() -> TimedOffset | None:
            segments = self._readable_segments()
            for segment in segments:
                segment.learn_timestamps()
            best: TimedOffset | None = None
            for segment in sorted(segments, key=lambda s: (-s.max_timestamp, s.base_offset)):
                if best is not None and segment.max_timestamp < best.timestamp_ms:
                    break
                found = self._find_time(segment.max_timestamp, segment) or self._latest_in(segment)
                if found is not None and (best is None or _later(found, best)):
                    best = found
            return best

        return await self._log.in_thread(find)

    def _latest_in(self, segment: Segment) -> TimedOffset | None:
        """For a segment whose largest timestamp was trimmed or is not readable yet."""
        best: TimedOffset | None = None
        for found in segment.batches(0, segment.size):
            if found[1] >= self.high_watermark:
                break
            if found[2] >= self.start_offset and (best is None or found[3] > best.timestamp_ms):
                for offset, when in _record_times(segment.content(found), found):
                    if offset >= self.start_offset and (best is None or when > best.timestamp_ms):
                        best = TimedOffset(offset, when)
        return best

    def _readable_segments(self) -> list[Segment]:
        return [s for s in self.segments if s.base_offset < self.high_watermark]

    def _find_time(self, timestamp_ms: int, only: Segment | None = None) -> TimedOffset | None:
        for segment in self._readable_segments() if only is None else [only]:
            segment.learn_timestamps()
            if segment.max_timestamp < timestamp_ms:
                continue
            entry = segment.index.before_time(timestamp_ms)
            for start, base, last, max_timestamp, size in segment.batches_from(*entry):
                if base >= self.high_watermark:
                    return None
                if max_timestamp >= timestamp_ms and last >= self.start_offset:
                    found = (start, base, last, max_timestamp, size)
                    for offset, when in _record_times(segment.content(found), found):
                        if when >= timestamp_ms and offset >= self.start_offset:
                            return TimedOffset(offset, when)
        return None

    # --- forgetting

    async def trim(self, before: int) -> int:
        if before > self.high_watermark:
            raise OffsetOutOfRange(f"can't trim to {before}: the partition ends at {self.high_watermark}")
        if before > self.start_offset:
            self.note_trim(before)
            await self._log.synced()
            self.drop_segments()
        return self.start_offset

    def note_trim(self, before: int) -> None:
        refusal = self._log.refusal
        if refusal is not None and not isinstance(refusal, DiskFull):  # to trim is how a full disk gets room
            raise refusal.with_traceback(None)
        self.start_offset = before
        self._log.changed.add(self)  # the next checkpoint must say so: the journal forgets it
        if self.durability is not Durability.MEMORY:
            entry = Entry(TRIM, self.topic_id, self.index, 0, before, b"")
            self._log.commit.add(Write(self, None, entry, 0, 0, after_journal=True), urgent=False)

    def drop_segments(self) -> None:
        """Removes the files of segments that lie wholly below the start; the trim must be durable."""
        count = 0
        while count + 1 < len(self.segments) and self._bases[count + 1] <= self.start_offset:
            count += 1
        gone = self.segments[:count]
        if gone:
            del self.segments[:count], self._bases[:count]
            self._log.remove_segments(self, gone)

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
        self._picky = config.compact or config.compression_type != "producer"
        self.append_time_ms = -1

    def row(self) -> Row:
        """How far this partition is readable, which is what a checkpoint makes safe."""
        segment, position = self._readable
        end_offset = self.high_watermark
        if segment is None or segment not in self.segments:  # all that was readable is trimmed away, or nothing ever was
            base, position = self._bases[0] if self._bases else end_offset, 0
        else:
            base = segment.base_offset
        known = self._producers_from >= self._restored_end if self._producers is None else not self.producers_changed
        producers_end = end_offset if known else self._producers_from
        return Row(self.start_offset, base, position, end_offset, end_offset, producers_end)

    def checkpoint_steps(self) -> list[Callable[[], None]]:
        """What makes the row true that is asked for afterwards, to be done in order on another thread."""
        if self.durability is Durability.MEMORY:
            return []
        files, folder, disk = self._log.files, self.folder, self._log.disk
        segments = [s for s in self.segments if s.base_offset >= self._checkpointed_base]
        sealed = segments[:-1]
        complete_before = self.row().segment_base  # from here on a reserved batch may still be on its way

        def sync() -> None:
            for segment in segments:
                if segment.size:
                    _sync_segment(segment, sealed=segment in sealed)
            if not all(segment.entry_synced for segment in segments):
                disk.sync_folder(folder)
            for segment in sealed:
                segment.entry_synced = True
                if segment.base_offset < complete_before:
                    segment.drop_index()
            self._checkpointed_base = complete_before

        steps: list[Callable[[], None]] = [sync] if any(segment.size for segment in segments) else []
        if self.producers_changed:
            self.producers_changed = self.high_watermark < self.end_offset  # what waits for its sync is not in it
            content = self.producers.save(self.high_watermark)
            steps.append(lambda: replace_file(disk, f"{folder}/{PRODUCERS}", content))
            files.forget(f"{folder}/{PRODUCERS}")
        return steps

    def checkpoint_failed(self) -> None:
        """What was to be saved is still to be saved."""
        self.producers_changed = self._producers is not None and bool(self._producers.by_id)

    def expire_producers(self, before_ms: int) -> None:
        if self._producers is not None and self._producers.by_id:
            self._producers.expire(before_ms)


class _WouldWait(Exception):
    """The bytes are not in memory."""


class _CachedReads:
    """Reads that never wait for the device."""

    __slots__ = ("_segment",)

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def __call__(self, position: int, size: int) -> bytes | bytearray:
        data = self._segment.file().read_cached(position, size)
        if data is None:
            raise _WouldWait
        return data


def _sync_segment(segment: Segment, *, sealed: bool) -> None:
    try:
        if sealed:
            segment.cut_leftovers()
        with segment.files.lend(segment.path) as file:
            try:
                file.sync()
            except OSError as error:
                raise SyncFailed(str(error)) from error
    except FileNotFoundError:  # all of it is reserved, and the commit thread has not come to it yet
        return
    try:
        segment.save_index()
    except OSError as error:
        if error.errno not in NO_SPACE:  # an index is only a hint
            raise


def _later(one: TimedOffset, other: TimedOffset) -> bool:
    return (one.timestamp_ms, -one.offset) > (other.timestamp_ms, -other.offset)


def _records(batch: Buffer) -> list[Record]:
    try:
        return decode_batch(batch)
    except BatchError as error:
        raise InvalidBatch(str(error)) from None


def _record_times(batch: Buffer, found: Found) -> list[tuple[int, int]]:
    """Offset and timestamp of each record; only what the header says when a producer wrote records that nobody can read."""
    try:
        return [(record.offset, record.timestamp_ms) for record in decode_batch(batch)]
    except BatchError:
        return [(found[1], found[3])]


def _check_timestamps(batch: Buffer, config: TopicConfig, now_ms: int) -> None:
    """KIP-937: each record's own time counts, and one without a time is always in order."""
    for record in _records(batch):
        when = record.timestamp_ms
        if when != -1 and (
            now_ms - when > config.message_timestamp_before_max_ms or when - now_ms > config.message_timestamp_after_max_ms
        ):
            raise InvalidTimestamp(f"timestamp {when} is too far from the server's clock, {now_ms}")


def _read_blocking(segment: Segment, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> Buffer:
    with segment.files.lend(segment.path) as file:
        return segment.read(file.read, offset, max_bytes, limit, at_least_one)
