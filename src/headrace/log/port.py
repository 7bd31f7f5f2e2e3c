"""The log port: what every engine offers and all the rest of Headrace builds on.

Two engines implement it: `headrace.log.embedded` (segments on this disk) and, later, one on a Kafka cluster. Calls on
the hot path are plain and synchronous up to the group commit; awaiting is for waiting only. Nothing here may assume that
every partition of a topic is local.

The unit is Kafka's record batch v2, byte for byte as it crosses the wire. Four offsets describe a partition:

    start_offset     the oldest offset that can still be read
    high_watermark   readers see everything below it; it is as durable as the topic promises
    last_stable_offset   readers of committed records see everything below it: no transaction that began there is open
    end_offset       the offset the next record will get
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from headrace.dataclass import dataclass
from headrace.disk.port import FilePart as FilePart
from headrace.log.errors import StorageError
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.record.pure.batches import Checked


class Durability(StrEnum):
    """What an acknowledgement promises. `fsync`: it survives power loss. `flush`: it survives kill -9. `memory`: it survives
    nothing but the moment."""

    FSYNC = "fsync"
    FLUSH = "flush"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """A record found by its time."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """Where an engine keeps its bytes, and how many it can."""

    path: str
    total_bytes: int
    usable_bytes: int
    journal_files: int = 0
    journal_bytes: int = 0  # that its files take
    journal_max_bytes: int = 0  # that they may


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A piece of a partition, as it is kept. Times are those of records; -1: not known."""

    base_offset: int
    end_offset: int
    size_bytes: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    on_disk: bool
    archived: bool
    active: bool  # it is the one that is written
    compacted: bool


@dataclass(slots=True)
class Upkeep:
    """What an engine did in the background, since its start."""

    compactions: int = 0
    compaction_seconds: float = 0.0
    compaction_read_bytes: int = 0
    compaction_written_bytes: int = 0
    compaction_given_up: int = 0  # partitions that are not compacted any more until the next start
    archived_segments: int = 0
    archived_bytes: int = 0
    archive_failures: int = 0  # passes that ended because the store failed


Buffer = bytes | bytearray | memoryview
PART_BYTES = 128 * 1024
Changed = Callable[[], None]
Synced = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """An idempotent producer as a partition remembers it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int = -1  # of the newest marker
    transaction_start_offset: int = -1  # -1: it has no transaction open here


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a partition has records of, and no marker."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int


class Partition(Protocol):
    """One ordered sequence of batches."""

    topic: str
    index: int
    durability: Durability
    start_offset: int
    high_watermark: int
    end_offset: int
    leader_epoch: int
    append_time_ms: int  # of the newest batch where the topic stamps it (LogAppendTime), else -1
    sealed: str  # why nothing but markers may be appended (`seal`); empty where it may

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the high watermark when none is open. Raises StorageError when
        what is known of transactions can't be read."""
        ...

    def append(self, batch: bytearray | memoryview, *, waits: bool = False) -> int:
        """Checks one batch, gives it its offset in place and writes it. Returns the base offset, or the first one's when the
        batch is an idempotent producer's retry. It is durable when `Log.after_sync` says so. With `waits` nobody is told of it
        before that, nor sees it, and so it may be written a little later."""
        ...

    def append_checked(self, batch: bytearray | memoryview, checked: Checked, *, waits: bool = False) -> int:
        """The same for a batch that `record.parse_sole_batch` has found sound, with what it found."""
        ...

    def append_own(self, batch: bytearray, count: int, timestamp_ms: int) -> int:
        """The same for a batch that this server made itself, uncompressed and from no producer: it is not checked again."""
        ...

    def append_control(self, batch: bytearray) -> int:
        """The same for a marker, which no client may write. Raises InvalidProducerEpoch or CoordinatorFenced for a zombie's."""
        ...

    def seal(self, reason: str) -> None:
        """From now on every append raises PartitionSealed with this text, except markers of transactions and the retry of a
        batch that is there already. The log does not store it: who seals does so again after a start."""
        ...

    def unseal(self) -> None: ...

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, committed: bool = False
    ) -> Buffer | Awaitable[Buffer]:
        """Whole batches from the one that holds `offset` up to the high watermark; an awaitable when the disk must be asked.
        With `at_least_one` a first batch larger than `max_bytes` is returned all the same, so that a reader moves on; with
        `committed` nothing at or behind the last stable offset is."""
        ...

    def part(self, offset: int, max_bytes: int, *, committed: bool = False) -> FilePart | None:
        """What `read` would return, as a part of a file that can be sent without reading it. None where `read` is the way:
        always for less than `PART_BYTES`."""
        ...

    def readable_bytes(self, offset: int, max_bytes: int) -> int:
        """About how many bytes `read` would return, without reading; never more than `max_bytes`."""
        ...

    def aborted(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions with records between these offsets."""
        ...

    def active_producers(self) -> list[ActiveProducer]: ...

    def watch(self, changed: Changed) -> None:
        """Calls `changed` whenever the high watermark moves, until `unwatch`."""
        ...

    def unwatch(self, changed: Changed) -> None: ...

    async def offset_at(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record whose timestamp is at or after this one."""
        ...

    async def latest_timestamp(self) -> TimedOffset | None:
        """The record with the largest timestamp (the first of them)."""
        ...

    async def trim(self, before: int) -> int:
        """Forgets everything below `before`; returns the new start offset."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of what is here; what is only in the archive is not in it."""
        ...

    async def stored_segments(self, after: int, most: int) -> list[StoredSegment]:
        """Those with a base offset above `after`, the oldest first, at most so many; also what is only in the archive."""
        ...

    @property
    def segment_count(self) -> int:
        """On this disk."""
        ...

    @property
    def archives(self) -> bool:
        """Whether closed segments go to the archive (`remote.storage.enable`)."""
        ...

    @property
    def local_start_offset(self) -> int:
        """From here on everything is local; below, down to the start, it must be brought from the archive."""
        ...

    @property
    def archived_end_offset(self) -> int:
        """Up to here everything is archived; -1 when nothing is."""
        ...

    @property
    def archived_bytes(self) -> int: ...

    @property
    def dirty_bytes(self) -> int:
        """Of a compacted topic: what was not compacted yet. 0 for others."""
        ...


class Topic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> UUID: ...

    @property
    def config(self) -> Mapping[str, str]:
        """What was set for this topic; defaults are not in it."""
        ...

    @property
    def partitions(self) -> Sequence[Partition]: ...

    @property
    def internal(self) -> bool: ...


class Table(Protocol):
    """A compacted internal topic, read to its end: the durable dictionary behind every definition and every position."""

    def get(self, key: bytes) -> bytes | None: ...

    def items(self) -> Iterable[tuple[bytes, bytes]]: ...

    def __len__(self) -> int: ...

    def put(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Sets rows, or removes those whose value is None, all or none of them. Visible at once, durable after
        `Log.synced`. Raises StorageError when it can't be written, and then nothing has changed."""
        ...


@dataclass(frozen=True, slots=True)
class Append:
    """One batch for one partition, as a part of `Lease.put`. It may be a marker."""

    topic: str
    partition: int
    batch: bytearray


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of another table, as a part of `Lease.put`."""

    table: Table
    rows: Mapping[bytes, bytes | None]


class Lease(Protocol):
    """The right to write one slot of a table, held until `lost`."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int:
        """Grows with each holder."""
        ...

    @property
    def table(self) -> Table: ...

    @property
    def lost(self) -> bool: ...

    def put(
        self, rows: Mapping[bytes, bytes | None], appends: Sequence[Append] = (), others: Sequence[TableRows] = ()
    ) -> list[int]:
        """Rows and appends happen together or not at all, also across a crash. Returns the base offsets. Rows are visible at
        once, everything is durable after `Log.synced`. Raises Fenced, or what an append raises, and then nothing has
        changed."""
        ...

    async def commit(self, rows: Mapping[bytes, bytes | None], appends: Sequence[Append] = ()) -> list[int]:
        """`put`, and wait until it is durable."""
        ...


class Log(Protocol):
    async def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, *, topic_id: UUID | None = None
    ) -> Topic: ...

    def define_topic(
        self,
        name: str,
        partitions: int,
        config: Mapping[str, str],
        *,
        internal: bool = True,
        topic_id: UUID | None = None,
    ) -> Topic:
        """A topic that is there at once; durable after `synced`."""
        ...

    def drop_topic(self, name: str) -> None:
        """Deletes a topic at once; what it held is removed in the background."""
        ...

    async def add_partitions(self, name: str, total: int, *, sealed: str = "") -> None:
        """With `sealed` the new ones are (`Partition.seal`), from their first moment."""
        ...

    async def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Replaces what was set for the topic; takes effect at once."""
        ...

    async def delete_topic(self, name: str) -> None: ...

    def topics(self) -> Mapping[str, Topic]: ...

    def topic_by_id(self, topic_id: UUID) -> Topic | None: ...

    def partition(self, topic: str, index: int) -> Partition | None: ...

    def after_sync(self, synced: Synced, *, now: bool = False) -> None:
        """Calls `synced(None)` once everything appended so far is durable, `synced(error)` if it can't be. At once when
        nothing is waiting for the disk. The sync begins at the end of the event loop's turn, so that others can come along;
        `now` is for whoever comes at that end."""
        ...

    async def synced(self) -> None:
        """The same, for those who can wait; raises StorageError."""
        ...

    @property
    def backlogged(self) -> bool:
        """More waits for the disk than may: stop reading from producers until `after_sync`."""
        ...

    refusal: StorageError | None  # why writes are refused now, if they are

    @property
    def sync_times(self) -> Times:
        """How long it took to make writes durable."""
        ...

    def storage(self) -> StorageInfo: ...

    @property
    def upkeep(self) -> Upkeep: ...

    def open_transactions(self) -> list[OpenTransaction]:
        """Of all partitions, after a start that followed a crash: tables and partitions may disagree about them then. Nothing
        after a clean end, when they agree."""
        ...

    async def table(self, name: str, slot: int = 0) -> Table: ...

    def leases(self, group: str, table: str) -> AsyncIterator[Lease]: ...
