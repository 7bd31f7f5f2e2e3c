"""What the window of a share partition is made of: states, runs of offsets with one state, and what members say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from headrace.dataclass import dataclass

_NOBODY = ""


class RecordState(IntEnum):
    """Numbers as Kafka writes them."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class AckType(IntEnum):
    GAP = 0  # there is no such record: compacted away, or a transaction's marker
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4  # KIP-1222


class Cause(IntEnum):
    """Why a record is delivered no more."""

    NONE = 0
    REJECTED = 1
    DELIVERED_TOO_OFTEN = 2


class InvalidRecordState(Exception):
    """The record is not acquired, or not by this member: its lock ran out, or it never was."""


class PastAcquired(Exception):
    """An acknowledgement of offsets that were never delivered."""


@dataclass(frozen=True, slots=True)
class Acquired:
    first: int
    last: int
    count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Of the offsets first to last: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True)
class Extent:
    """One record batch that was read. `readable` is false when it has nothing to deliver: a marker, an aborted batch."""

    first: int
    last: int
    readable: bool = True


@dataclass(slots=True)
class Run:
    first: int
    last: int
    state: RecordState
    count: int = 0
    member: str = _NOBODY
    locked_until: float = 0.0
    cause: Cause = Cause.NONE

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def done(self) -> bool:
        return self.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

    def like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.member == other.member
            and self.cause is other.cause
            and self.locked_until == other.locked_until
            and (self.count == other.count or self.done)
        )


@dataclass(frozen=True, slots=True)
class Limits:
    delivery_count: int  # share.delivery.count.limit
    record_locks: int  # share.partition.max.record.locks
    dead_letters: bool  # whether what is given up waits for its copy

    @property
    def few_from(self) -> int:
        """From this delivery count on a record is delivered with fewer others each time."""
        return max(2, -(-self.delivery_count // 2))


def alike(ack: Acknowledgement, start: int) -> Iterator[tuple[int, int, int]]:
    """Neighbouring offsets with the same type, from `start` on."""
    if ack.last < start:
        return
    if len(ack.types) == 1:
        yield max(ack.first, start), ack.last, ack.types[0]
        return
    begin = max(0, start - ack.first)
    for place in range(begin + 1, len(ack.types) + 1):
        if place == len(ack.types) or ack.types[place] != ack.types[begin]:
            yield ack.first + begin, ack.first + place - 1, ack.types[begin]
            begin = place


def free(run: Run, state: RecordState) -> None:
    run.state, run.member, run.locked_until = state, _NOBODY, 0.0


def give_up(run: Run, cause: Cause, limits: Limits) -> None:
    run.cause = cause if limits.dead_letters else Cause.NONE
    free(run, RecordState.ARCHIVING if limits.dead_letters else RecordState.ARCHIVED)


def release(run: Run, limits: Limits) -> None:
    if run.count >= limits.delivery_count:
        give_up(run, Cause.DELIVERED_TOO_OFTEN, limits)
    else:
        free(run, RecordState.AVAILABLE)
