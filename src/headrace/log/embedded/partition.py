"""One partition: its segments, its three offsets, and the way of a batch in and out.

A batch is checked, stamped with its offset and written to the last segment in one go on the event loop. With `durability =
fsync` it then waits for the group commit, and only what is durable is shown to readers: nobody reads what a crash could take
back. With `flush` and `memory` it is readable at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.disk.port import Buffer
from headrace.log.embedded.checkpoint import Row, replace_file
from headrace.log.embedded.commit import Write
from headrace.log.embedded.journal import BATCH, TRIM, Entry
from headrace.log.embedded.layout import PRODUCERS, index_path
from headrace.log.embedded.producers import Producers
from headrace.log.embedded.segment import Found, Segment
from headrace.log.errors import (
    BatchTooLarge,
    CorruptBatch,
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
    stamp_append_time,
    stamp_batch,
)
from headrace.record.batch import decode_batch

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog

_COMPRESSION = 0x07
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
_LAST_SEQUENCE = 0x7FFF_FFFF
_MAX_RELATIVE_OFFSET = 0x7FFF_FFFF


class EmbeddedPartition:
    __slots__ = (
        "_bases",
        "_checkpointed_base",
        "_has_unsynced",
        "_last_batch",
        "_log",
        "_producers",
        "_readable",
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
        self.append_time_ms = -1
        self.leader_epoch = 0
        self.start_offset = self.high_watermark = self.end_offset = 0
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self._readable: tuple[Segment | None, int] = (None, 0)  # readers stop in this segment, at this position
        self._last_batch: tuple[int, int] = (-1, 0)  # base offset and position of the newest batch
        self._producers: Producers | None = Producers()
        self.producers_changed = False
        self._checkpointed_base = 0  # segments before it are synced and indexed for good
        self._has_unsynced = False  # `durability = flush` wrote here since the last group commit
        self.pending_reserved = 0  # writes that reach their segment only after the journal has them
        self.watchers: list[Changed] = []
        self.broken = ""  # what recovery found wrong, when it must not guess

    def restore(self, segments: list[Segment], start_offset: int, end_offset: int, *, producers_on_disk: bool) -> None:
        """Takes what a checkpoint or recovery knows."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.start_offset = start_offset
        self.end_offset = self.high_watermark = end_offset
        if segments:
            self._readable = (segments[-1], segments[-1].size)
        if producers_on_disk:
            self._producers = None

    # --- appending

    def append(self, batch: bytearray | memoryview) -> int:
        try:
            checked = check_batch(batch, 0, len(batch))
        except (InconsistentBatch, UnsupportedMagic) as error:
            raise InvalidBatch(str(error)) from None
        except BatchError as error:
            raise CorruptBatch(str(error)) from None
        attributes = checked[0]
        if attributes & _CONTROL:
            raise InvalidBatch("clients may not write control batches")
        return self._append(batch, checked)

    def append_control(self, batch: bytearray) -> int:
        """For the broker's own markers."""
        return self._append(batch, check_batch(batch, 0, len(batch)))

    def append_after_journal(self, batch: bytearray) -> int:
        """Like `append`, for writes that must happen together: the segment is written once the journal has them all."""
        return self._append(batch, check_batch(batch, 0, len(batch)), after_journal=True)

    def _append(
        self,
        batch: bytearray | memoryview,
        checked: tuple[int, int, int, int, int, int, int, int],
        after_journal: bool = False,
    ) -> int:
        attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = checked
        log = self._log
        config = self.config
        if log.refusal is not None or self.broken:
            self._refuse()
        size = len(batch)
        if size > config.max_message_bytes:
            raise BatchTooLarge(f"a batch of {size} bytes, where max.message.bytes allows {config.max_message_bytes}")
        if config.compact and not attributes & _CONTROL:
            _require_keys(batch)
        now_ms = log.clock.now_ms()
        codec = config.compression_type
        if codec != "producer" and _CODECS[attributes & _COMPRESSION] != codec and not attributes & _CONTROL:
            batch = log.recompress(batch, codec, config)
            size = len(batch)
        if config.log_append_time:
            stamp_append_time(batch, 0, size, now_ms)
            max_timestamp = self.append_time_ms = now_ms
        elif (
            now_ms - max_timestamp > config.message_timestamp_before_max_ms
            or max_timestamp - now_ms > config.message_timestamp_after_max_ms
        ):
            raise InvalidTimestamp(f"timestamp {max_timestamp} is too far from the server's clock, {now_ms}")
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
        segment = self._segment_for_write(size, base_offset + last_delta, max_timestamp, now_ms)
        position = segment.size
        durable = self.durability is Durability.FSYNC or after_journal
        if after_journal or self.pending_reserved:
            after_journal = True
            segment.reserve(size, base_offset, max_timestamp)
            self.pending_reserved += 1
        else:
            try:
                segment.append(batch, base_offset, max_timestamp)
            except OSError as error:
                raise log.storage_error(error) from error
        log.changed.add(self)
        end_offset = self.end_offset = base_offset + last_delta + 1
        self._last_batch = (base_offset, position)
        if producer_id >= 0:
            self.producers.note(producer_id, epoch, sequence, last_sequence, base_offset, now_ms)
            self.producers_changed = True
        if durable:
            log.commit.add(
                Write(
                    self,
                    segment,
                    Entry(BATCH, self.topic_id, self.index, segment.base_offset, position, bytes(batch)),
                    end_offset,
                    position + size,
                    after_journal,
                    sync_first=self._take_unsynced(),
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

    def _take_unsynced(self) -> tuple[Segment, ...]:
        """Segments with batches that no group commit has covered: a durable batch behind them needs them on disk first."""
        if not self._has_unsynced:
            return ()
        self._has_unsynced = False
        return tuple(s for s in self.segments if s.base_offset >= self._checkpointed_base)

    def _refuse(self) -> None:
        if self._log.refusal is not None:
            raise self._log.refusal
        raise StorageError(self.broken)

    def _segment_for_write(self, size: int, last_offset: int, timestamp_ms: int, now_ms: int) -> Segment:
        segments = self.segments
        if segments:
            segment = segments[-1]
            config = self.config
            if (
                segment.size + size <= config.segment_bytes
                and last_offset - segment.base_offset <= _MAX_RELATIVE_OFFSET
                and (segment.first_timestamp < 0 or timestamp_ms - segment.first_timestamp <= config.max_segment_ms)
            ) or segment.size == 0:
                if segment.first_timestamp < 0:
                    if segment.size:
                        segment.learn_timestamps()
                    else:
                        segment.first_timestamp = timestamp_ms
                return segment
        return self._roll(timestamp_ms)

    def _roll(self, timestamp_ms: int) -> Segment:
        segment = Segment(self._log.files_for(self), self.folder, self.end_offset, self.config.index_interval_bytes)
        segment.first_timestamp = timestamp_ms
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
            self._producers = self._load_producers()
        return self._producers

    def _load_producers(self) -> Producers:
        """The saved state, brought up to date with the batches behind it; all batches when nothing usable was saved."""
        try:
            file = self._log.files_for(self).get(f"{self.folder}/{PRODUCERS}")
            loaded = Producers.load(file.read(0, file.size()))
        except FileNotFoundError:
            loaded = None
        producers, from_offset = loaded if loaded is not None else (Producers(), self.start_offset)
        if from_offset > self.end_offset:
            producers, from_offset = Producers(), self.start_offset
        now_ms = self._log.clock.now_ms()
        for segment, found in self.batches(max(from_offset, self.start_offset)):
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
            changed()

    # --- reading

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Buffer | Awaitable[Buffer]:
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside {self.start_offset} to {self.end_offset}")
        if offset >= self.high_watermark:
            if self.broken:
                raise StorageError(self.broken)
            return b""
        segment = self.segments[bisect_right(self._bases, offset) - 1]
        limit = self._readable[1] if segment is self._readable[0] else segment.size
        base, position = self._last_batch
        if 0 <= base <= offset and segment is self.segments[-1] and limit - position <= max_bytes:
            data = segment.file().read_cached(position, limit - position)  # a reader at the tail: the newest batch
            if data is not None:
                return data
        try:
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

    def batches(self, offset: int) -> Iterator[tuple[Segment, Found]]:
        """Every batch from the one that holds `offset` to the end. Blocks on the disk."""
        if not self.segments or offset >= self.end_offset:
            return
        for segment in self.segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            _, position = segment.index.before_offset(max(0, offset - segment.base_offset))
            for found in segment.batches(position, segment.size):
                if found[2] >= offset:
                    yield segment, found

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
            best: Segment | None = None
            for segment in self._readable_segments():
                segment.learn_timestamps()
                if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
                    best = segment
            return self._find_time(best.max_timestamp, best) if best is not None else None

        return await self._log.in_thread(find)

    def _readable_segments(self) -> list[Segment]:
        return [s for s in self.segments if s.base_offset < self.high_watermark]

    def _find_time(self, timestamp_ms: int, only: Segment | None = None) -> TimedOffset | None:
        for segment in self._readable_segments() if only is None else [only]:
            segment.learn_timestamps()
            if segment.max_timestamp < timestamp_ms:
                continue
            _, position = segment.index.before_time(timestamp_ms)
            for start, base, last, max_timestamp, size in segment.batches(position, segment.size):
                if base >= self.high_watermark:
                    return None
                if max_timestamp >= timestamp_ms and last >= self.start_offset:
                    for record in decode_batch(segment.content((start, base, last, max_timestamp, size))):
                        if record.timestamp_ms >= timestamp_ms and record.offset >= self.start_offset:
                            return TimedOffset(record.offset, record.timestamp_ms)
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
        if self._log.refusal is not None:
            raise self._log.refusal
        self.start_offset = before
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
        self.append_time_ms = -1
        if self.durability is not Durability.FSYNC and self._log.commit.idle:
            self.high_watermark = self.end_offset

    def row(self) -> Row:
        """How far this partition is readable, which is what a checkpoint makes safe."""
        segment, position = self._readable
        if segment is None or segment not in self.segments[-2:]:
            segment, position = self.segments[-1], 0
        return Row(self.start_offset, segment.base_offset, position, self.high_watermark)

    def checkpoint_steps(self) -> list[Callable[[], None]]:
        """What makes that row true, to be done in order on another thread."""
        if self.durability is Durability.MEMORY:
            return []
        files, folder = self._log.files, self.folder
        segments = [s for s in self.segments if s.base_offset >= self._checkpointed_base]
        self._checkpointed_base = segments[-1].base_offset if segments else 0
        sealed = segments[:-1]

        def sync() -> None:
            for segment in segments:
                if segment.size:
                    with files.lend(segment.path) as file:
                        file.sync()
                    segment.save_index()
            for segment in sealed:
                segment.drop_index()
            self._log.disk.sync_folder(folder)

        steps: list[Callable[[], None]] = [sync] if segments else []
        if self.producers_changed:
            self.producers_changed = False
            content = self.producers.save(self.high_watermark)
            steps.append(lambda: replace_file(self._log.disk, f"{folder}/{PRODUCERS}", content))
            files.forget(f"{folder}/{PRODUCERS}")
        return steps

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


def _read_blocking(segment: Segment, offset: int, max_bytes: int, limit: int, at_least_one: bool) -> Buffer:
    with segment.files.lend(segment.path) as file:
        return segment.read(file.read, offset, max_bytes, limit, at_least_one)


def _require_keys(batch: Buffer) -> None:
    if any(record.key is None for record in decode_batch(batch)):
        raise InvalidBatch("a compacted topic takes only records with a key")
