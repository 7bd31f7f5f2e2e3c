"""One share partition at work: a window (`window`) over a partition of the log.

A fetch reads from the first offset that the window has to give, and takes what is still available once the bytes are there;
two fetches that read at the same time never get the same record, since taking is one step on the event loop. One timer for
the whole window runs until its first lock does. Whoever found nothing watches, and is called when something may be there:
the log has grown, a record was released, or the window has room again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from headrace.broker.groups.countdown import Countdown
from headrace.broker.groups.share.reading import found_in, read_to, with_records
from headrace.broker.groups.share.runs import Acknowledgement, AckType, Acquired, Limits
from headrace.broker.groups.share.state_rows import Place, State, encode_state
from headrace.broker.groups.share.state_store import StateStore
from headrace.broker.groups.share.window import Window
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import OffsetOutOfRange
from headrace.log.port import Buffer, Partition

MAX_READ_BYTES = 1024 * 1024  # of one partition at once; a larger batch is read whole all the same
MIN_READ_BYTES = 16 * 1024

Changed = Callable[[], None]


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """What the group says now."""

    limits: Limits
    lock_ms: int
    read_committed: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """What a fetch got: whole batches, and which of their records are its own."""

    records: bytes
    acquired: tuple[Acquired, ...]

    @property
    def count(self) -> int:
        return sum(piece.size for piece in self.acquired)


NOTHING = Taken(b"", ())


class SharePartition:
    def __init__(
        self,
        place: Place,
        topic: str,
        log: Partition,
        store: StateStore,
        clock: Clock,
        settings: Callable[[], PartitionSettings],
        *,
        state: State,
    ) -> None:
        self.place = place
        self.topic = topic
        self.log = log
        self.window = Window(state.start, state.runs)
        self.state_epoch = state.state_epoch
        self.closed = False
        self.on_dead_letters: Callable[[SharePartition], None] = _nobody
        self._created_ms = state.created_ms or clock.now_ms()
        self._store = store
        self._clock = clock
        self._settings = settings
        self._locks = Countdown(clock, self._locks_ran_out)
        self._watchers: list[Changed] = []
        self._record_bytes = 256  # what a record took last time

    # -- taking

    def may_have_something(self) -> bool:
        """Whether a fetch now could get a record."""
        settings = self._settings()
        self._follow_log()
        offset = self.window.next_offset(settings.limits)
        return offset is not None and offset < read_to(self.log, committed=settings.read_committed)

    def readable_bytes(self, enough: int) -> int:
        """About how many bytes a fetch now could get; never more than `enough`."""
        settings = self._settings()
        self._follow_log()
        offset = self.window.next_offset(settings.limits)
        if offset is None or offset >= read_to(self.log, committed=settings.read_committed):
            return 0
        return 1 if enough <= 1 else self.log.readable_bytes(offset, enough)

    async def take(
        self, member: str, max_bytes: int, max_records: int, *, strict: bool, still_wanted: Callable[[], bool]
    ) -> Taken:
        """Acquires for a member. Raises LogError when the log can't be read."""
        settings = self._settings()
        self._follow_log()
        offset = self.window.next_offset(settings.limits)
        committed = settings.read_committed
        if offset is None or offset >= read_to(self.log, committed=committed):
            return NOTHING
        size = self._read_bytes(max_bytes, max_records)
        try:
            data: Buffer | Awaitable[Buffer] = self.log.read(offset, size, committed=committed)
            if isinstance(data, Awaitable):
                data = await data
        except OffsetOutOfRange:
            self._follow_log()  # retention was faster
            return NOTHING
        if self.closed or not still_wanted():
            return NOTHING
        before = self.window.start, self.window.end
        found = found_in(data, self.log, committed=committed)
        acquired = self.window.acquire(
            member,
            [extent for extent, _ in found],
            max_records,
            settings.limits,
            self._clock.monotonic() + settings.lock_ms / 1000,
            strict=strict,
        )
        if not acquired and (self.window.start, self.window.end) != before:
            self._store.changed(self)  # there was nothing to deliver, and that is done
        self._set_timer()
        taken = Taken(with_records(found, acquired), tuple(acquired))
        if acquired:
            self._record_bytes = max(1, len(taken.records) // taken.count)
        return taken

    def _read_bytes(self, max_bytes: int, max_records: int) -> int:
        """No more than about what so many records take, by what they took last time."""
        expected = max_records * self._record_bytes
        return max(1, min(max_bytes, MAX_READ_BYTES, max(MIN_READ_BYTES, expected + expected // 4)))

    # -- answering for what was taken

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Durable once the store has kept it. Raises InvalidRecordState and PastAcquired."""
        settings = self._settings()
        self._follow_log()
        locked_until = self._clock.monotonic() + settings.lock_ms / 1000
        self.window.acknowledge(member, acknowledgements, settings.limits, locked_until)
        if all(kind == AckType.RENEW for ack in acknowledgements for kind in ack.types):
            self._set_timer()  # locks are nothing that is kept
        else:
            self._changed()

    def release(self, member: str) -> None:
        if self.window.release(member, self._settings().limits):
            self._changed()

    def _locks_ran_out(self) -> None:
        if self.window.expire(self._clock.monotonic() + _GRAIN_S, self._settings().limits):
            self._changed()
        else:
            self._set_timer()

    def settings_changed(self) -> None:
        """The group may let more be in flight now."""
        self.tell()

    # -- the log and its end

    def _follow_log(self) -> None:
        """Records that retention, or somebody, has deleted are not waited for."""
        if self.window.begin_at(min(self.log.start_offset, self.log.end_offset)):
            self._changed()

    @property
    def lag(self) -> int:
        """Records that are not done yet (KIP-1226)."""
        start = self.start_offset
        return max(0, self.log.high_watermark - start - self.window.done_from(start))

    @property
    def start_offset(self) -> int:
        """Everything below it is done, or deleted."""
        return max(self.window.start, min(self.log.start_offset, self.log.end_offset))

    # -- keeping

    def row(self) -> bytes:
        return self.row_of(self.window)

    def row_of(self, window: Window) -> bytes:
        return encode_state(
            window.start,
            window.runs,
            state_epoch=self.state_epoch,
            leader_epoch=self.log.leader_epoch,
            created_ms=self._created_ms,
            now_ms=self._clock.now_ms(),
        )

    def copied(self, spans: Iterable[tuple[int, int]]) -> None:
        """These dead letters are in their topic, and the row says so."""
        for first, last in spans:
            self.window.archived(first, last)
        self.tell()

    def _changed(self) -> None:
        self._store.changed(self)
        self._set_timer()
        if next(self.window.waiting_for_copy(), None) is not None:
            self.on_dead_letters(self)
        self.tell()

    def _set_timer(self) -> None:
        deadline = self.window.next_deadline()
        if deadline is None:
            self._locks.stop()
        else:
            self._locks.restart(round((deadline - self._clock.monotonic()) * 1000))

    # -- those who wait

    def watch(self, changed: Changed) -> None:
        self.log.watch(changed)
        self._watchers.append(changed)

    def unwatch(self, changed: Changed) -> None:
        self.log.unwatch(changed)
        self._watchers.remove(changed)

    def tell(self) -> None:
        for changed in tuple(self._watchers):
            changed()

    def close(self) -> None:
        """Nobody may use it any more."""
        self.closed = True
        self._locks.stop()
        self.tell()


_GRAIN_S = 0.001  # event loops round timers


def _nobody(partition: SharePartition) -> None:
    pass
