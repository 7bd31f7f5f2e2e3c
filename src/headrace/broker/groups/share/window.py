"""The in-flight window of a share partition: what has become of each record between two offsets. Pure: no log, no timers.

Everything below `start` is done, everything from `end` on has never been delivered. In between stand *runs*: neighbouring
offsets with the same state, delivery count and owner, in order and without gaps. So a window costs memory and time by runs,
not by records, and a million records that were acquired and accepted in order are one run that comes and goes.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                     |  |
        +------- release -----+  +--- reject, gap, released once too often --> ARCHIVING --copied--> ARCHIVED

ARCHIVING is KIP-1191's: the record is not delivered any more and waits for its copy in the dead-letter topic; a group without
one goes to ARCHIVED at once. Once the runs at the front are ACKNOWLEDGED or ARCHIVED, `start` moves past them.

A record that was delivered often is delivered with few others, and alone at its last attempt, so that one that kills its
reader does not take its neighbours with it (as Apache Kafka 4.3 does).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headrace.broker.groups.share.runs import (
    Acknowledgement,
    AckType,
    Acquired,
    Cause,
    Extent,
    InvalidRecordState,
    Limits,
    PastAcquired,
    RecordState,
    Run,
    alike,
    free,
    give_up,
    release,
)


class Window:
    def __init__(self, start: int, runs: Iterable[Run] = ()) -> None:
        self.start = start
        self._runs = list(runs)
        self._close_gaps()

    def _close_gaps(self) -> None:
        """Rows of a Kafka broker leave out what was acquired; here every offset of the window is in a run."""
        closed: list[Run] = []
        at = self.start
        for run in sorted(self._runs, key=lambda found: found.first):
            if run.last < at:
                continue
            run.first = max(run.first, at)
            if run.first > at:
                closed.append(Run(at, run.first - 1, RecordState.AVAILABLE))
            closed.append(run)
            at = run.last + 1
        self._runs = closed
        self._settle()

    def copy(self) -> Window:
        return Window(self.start, [replace(run) for run in self._runs])

    # -- looking

    @property
    def end(self) -> int:
        """The first offset that was never delivered."""
        return self._runs[-1].last + 1 if self._runs else self.start

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def runs(self) -> Sequence[Run]:
        return self._runs

    def done_from(self, offset: int) -> int:
        """How many records from this offset on are done (KIP-1226 leaves them out of the lag)."""
        return sum(run.last - max(run.first, offset) + 1 for run in self._runs if run.done and run.last >= offset)

    def next_offset(self, limits: Limits) -> int | None:
        """Where a read should begin; None when all that may be in flight is."""
        for run in self._runs:
            if run.state is RecordState.AVAILABLE:
                return run.first
        return self.end if self.size < limits.record_locks else None

    def next_deadline(self) -> float | None:
        return min((run.locked_until for run in self._runs if run.state is RecordState.ACQUIRED), default=None)

    def waiting_for_copy(self) -> Iterator[Run]:
        return (run for run in self._runs if run.state is RecordState.ARCHIVING)

    def held_by(self, member: str) -> bool:
        return any(run.member == member for run in self._runs if run.state is RecordState.ACQUIRED)

    # -- acquiring

    def acquire(
        self,
        member: str,
        extents: Sequence[Extent],
        max_records: int,
        limits: Limits,
        locked_until: float,
        *,
        strict: bool = False,
    ) -> list[Acquired]:
        """Takes what is available of the batches that were read, for one member, until `locked_until`.

        `max_records` is a guide: new batches are taken whole, unless `strict` (KIP-1206's record_limit mode).
        """
        if not extents or max_records <= 0:
            return []
        taken, alone = self._acquire_again(member, extents, max_records, limits, locked_until)
        left = max_records - sum(piece.size for piece in taken)
        if left > 0 and not alone:
            taken += self._acquire_new(member, extents, left, limits, locked_until, strict)
        self._settle()
        return taken

    def _acquire_again(
        self, member: str, extents: Sequence[Extent], left: int, limits: Limits, locked_until: float
    ) -> tuple[list[Acquired], bool]:
        """What was delivered before and is available again; and whether it must not be delivered with more."""
        low, high = extents[0].first, extents[-1].last
        self._archive_unreadable(extents)
        taken: list[Acquired] = []
        position = self._index_of(max(low, self.start))
        while position < len(self._runs) and left > 0:
            run = self._runs[position]
            if run.first > high:
                break
            if run.state is not RecordState.AVAILABLE or run.last < low:
                position += 1
                continue
            first = max(run.first, low)
            few = run.count >= limits.few_from
            if few and taken:
                return taken, True
            size = min(left, min(run.last, high) - first + 1)
            if few:
                last_attempt = limits.delivery_count > 2 and run.count >= limits.delivery_count - 1
                size = 1 if last_attempt else min(size, max(1, run.size >> (run.count - limits.few_from + 1)))
            position = self._cut(first, first + size - 1)
            run = self._runs[position]
            run.state, run.member, run.locked_until = RecordState.ACQUIRED, member, locked_until
            run.count += 1
            taken.append(Acquired(run.first, run.last, run.count))
            left -= size
            if few:
                return taken, True
            position += 1
        return taken, False

    def _archive_unreadable(self, extents: Sequence[Extent]) -> None:
        for extent in extents:
            if extent.readable or extent.first >= self.end:
                continue
            for run in self._pieces(max(extent.first, self.start), min(extent.last, self.end - 1)):
                if run.state is RecordState.AVAILABLE:
                    run.state = RecordState.ARCHIVED

    def _acquire_new(
        self, member: str, extents: Sequence[Extent], left: int, limits: Limits, locked_until: float, strict: bool
    ) -> list[Acquired]:
        taken: list[Acquired] = []
        for extent in extents:
            if extent.last < self.end:
                continue
            room = limits.record_locks - self.size
            if left <= 0 or room <= 0:
                break
            if extent.first > self.end:  # compacted away: nothing was ever there to deliver
                self._runs.append(Run(self.end, extent.first - 1, RecordState.ARCHIVED))
            first = self.end
            if not extent.readable:
                self._runs.append(Run(first, extent.last, RecordState.ARCHIVED))
                continue
            last = min(extent.last, first + min(left, room) - 1) if strict else extent.last
            self._runs.append(Run(first, last, RecordState.ACQUIRED, 1, member, locked_until))
            left -= last - first + 1
            if taken and taken[-1].last == first - 1:
                first = taken.pop().first
            taken.append(Acquired(first, last, 1))
        return taken

    # -- answering for what was acquired

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], limits: Limits, locked_until: float
    ) -> None:
        """All of them or none. Raises InvalidRecordState and PastAcquired."""
        for ack in acknowledgements:
            self._check(member, ack)
        for ack in acknowledgements:
            for first, last, kind in alike(ack, self.start):
                for run in self._pieces(first, last):
                    self._apply(run, AckType(kind), limits, locked_until)
        self._settle()

    def _check(self, member: str, ack: Acknowledgement) -> None:
        if ack.last < self.start:
            return  # retention has passed it by
        if ack.first >= self.end:
            raise PastAcquired("Batch record not found. The first offset in request is past acquired records.")
        if ack.last >= self.end:
            raise PastAcquired("Batch record not found. The last offset in request is past acquired records.")
        for run in self._runs[self._index_of(max(ack.first, self.start)) :]:
            if run.first > ack.last:
                return
            if run.state is not RecordState.ACQUIRED:
                raise InvalidRecordState("The batch cannot be acknowledged. The batch is not in the acquired state.")
            if run.member != member:
                raise InvalidRecordState("Member is not the owner of batch record")

    def _apply(self, run: Run, kind: AckType, limits: Limits, locked_until: float) -> None:
        match kind:
            case AckType.RENEW:
                run.locked_until = locked_until
            case AckType.ACCEPT:
                free(run, RecordState.ACKNOWLEDGED)
            case AckType.GAP:
                free(run, RecordState.ARCHIVED)
            case AckType.REJECT:
                give_up(run, Cause.REJECTED, limits)
            case AckType.RELEASE:
                release(run, limits)

    def release(self, member: str, limits: Limits) -> bool:
        """The member is gone; what it held counts as delivered. Whether it held anything."""
        held = [run for run in self._runs if run.state is RecordState.ACQUIRED and run.member == member]
        return self._release_all(held, limits)

    def expire(self, now: float, limits: Limits) -> bool:
        """Locks that ran out by now. Whether there were any."""
        expired = [run for run in self._runs if run.state is RecordState.ACQUIRED and run.locked_until <= now]
        return self._release_all(expired, limits)

    def _release_all(self, runs: Sequence[Run], limits: Limits) -> bool:
        for run in runs:
            release(run, limits)
        self._settle()
        return bool(runs)

    def archived(self, first: int, last: int) -> None:
        """What waited for its copy has it."""
        if first < self.end and last >= self.start:
            for run in self._pieces(max(first, self.start), min(last, self.end - 1)):
                if run.state is RecordState.ARCHIVING:
                    free(run, RecordState.ARCHIVED)
            self._settle()

    def begin_at(self, offset: int) -> bool:
        """The log begins here now: what lies before is gone. Whether that changed anything."""
        if offset <= self.start:
            return False
        if offset >= self.end:
            self._runs = []
        else:
            self._split(offset)
            self._runs = self._runs[self._index_of(offset) :]
        self.start = offset
        self._settle()
        return True

    # -- runs

    def _index_of(self, offset: int) -> int:
        """Of the run that holds an offset of the window."""
        return max(0, bisect_right(self._runs, offset, key=lambda run: run.first) - 1)

    def _split(self, offset: int) -> None:
        """Afterwards a run begins at this offset."""
        if not self.start < offset < self.end:
            return
        at = self._index_of(offset)
        run = self._runs[at]
        if run.first < offset:
            rest = Run(offset, run.last, run.state, run.count, run.member, run.locked_until, run.cause)
            run.last = offset - 1
            self._runs.insert(at + 1, rest)

    def _cut(self, first: int, last: int) -> int:
        """Afterwards runs begin at `first` and behind `last`; the place of the one at `first`."""
        self._split(first)
        self._split(last + 1)
        return self._index_of(first)

    def _pieces(self, first: int, last: int) -> list[Run]:
        at = self._cut(first, last)
        end = at
        while end < len(self._runs) and self._runs[end].first <= last:
            end += 1
        return self._runs[at:end]

    def _settle(self) -> None:
        """Moves `start` past what is done, and joins neighbours that have become alike."""
        runs = self._runs
        done = 0
        while done < len(runs) and runs[done].done:
            self.start = runs[done].last + 1
            done += 1
        joined: list[Run] = []
        for run in runs[done:]:
            if joined and joined[-1].like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs = joined
