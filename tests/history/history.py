"""What clients did and saw, and whether a log that keeps its promises could have let them see it.

Every event has a time, on one clock; an event that a client could not finish (because it, or the server, was killed) is
simply not there. A value is written in a transaction, or without one, and may be tried again in another one when the first was
aborted.

Faults that are found:

    lost write          acknowledged and committed, but a reader who went past it did not see it
    aborted read        a reader of committed records saw a value whose transaction was aborted
    dirty read          … or saw it before anybody had asked to commit its transaction
    torn transaction    … or saw some values of a transaction and never the others
    duplicate           a reader saw a value twice
    offset divergence   two values at one offset, one value at two, or a reader who went back
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Place = tuple[str, int]  # topic, partition


@dataclass(frozen=True, slots=True)
class Wrote:
    """A write was acknowledged."""

    time: float
    place: Place
    offset: int
    value: str
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A client is about to commit or to abort; what becomes of it is not known yet."""

    time: float
    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """… and was told that it has happened."""

    time: float
    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True)
class Read:
    time: float
    reader: str
    place: Place
    offset: int
    value: str
    transaction: str | None = None
    committed_only: bool = True


@dataclass(frozen=True, slots=True)
class Reached:
    """A reader has read everything below this offset that it could see."""

    time: float
    reader: str
    place: Place
    offset: int


Event = Wrote | Asked | Ended | Read | Reached


@dataclass(frozen=True, slots=True)
class Problem:
    kind: str
    text: str


def problems(events: Iterable[Event]) -> list[Problem]:
    """Everything that is wrong with a history; nothing when all of it can be explained."""
    history = _History(sorted(events, key=lambda event: event.time))
    return [
        *history.aborted_and_dirty_reads(),
        *history.lost_writes(),
        *history.torn_transactions(),
        *history.duplicates(),
        *history.divergences(),
    ]


class _History:
    def __init__(self, events: list[Event]) -> None:
        self.writes = [event for event in events if isinstance(event, Wrote)]
        self.reads = [event for event in events if isinstance(event, Read)]
        self.asked: dict[str, Asked] = {}
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.reached: dict[tuple[str, Place], int] = {}
        for event in events:
            if isinstance(event, Asked) and event.commit:
                self.asked.setdefault(event.transaction, event)
            elif isinstance(event, Ended):
                (self.committed if event.commit else self.aborted).add(event.transaction)
            elif isinstance(event, Reached):
                key = (event.reader, event.place)
                self.reached[key] = max(event.offset, self.reached.get(key, 0))
        self.seen: dict[str, dict[Place, dict[int, Read]]] = defaultdict(lambda: defaultdict(dict))
        for read in self.reads:
            self.seen[read.reader][read.place].setdefault(read.offset, read)

    def aborted_and_dirty_reads(self) -> list[Problem]:
        found = []
        for read in self.reads:
            if not read.committed_only or read.transaction is None:
                continue
            asked = self.asked.get(read.transaction)
            if read.transaction in self.aborted:
                found.append(Problem("aborted read", f"{read.reader} saw {read.value!r} of {read.transaction}"))
            elif asked is None or read.time < asked.time:
                found.append(Problem("dirty read", f"{read.reader} saw {read.value!r} of {read.transaction} before its commit"))
        return found

    def lost_writes(self) -> list[Problem]:
        found = []
        for write in self.writes:
            if write.transaction is not None and write.transaction not in self.committed:
                continue
            for (reader, place), end in self.reached.items():
                if place == write.place and write.offset < end and not self._saw(reader, write):
                    found.append(Problem("lost write", f"{reader} missed {write.value!r} at {place} {write.offset}"))
        return found

    def torn_transactions(self) -> list[Problem]:
        found = []
        by_transaction: dict[str, list[Wrote]] = defaultdict(list)
        for write in self.writes:
            if write.transaction is not None:
                by_transaction[write.transaction].append(write)
        for transaction, writes in by_transaction.items():
            for reader, places in self.seen.items():
                could = [write for write in writes if write.offset < self.reached.get((reader, write.place), 0)]
                saw = [write for write in could if self._saw(reader, write)]
                any_read = next(iter(next(iter(places.values())).values()))
                if any_read.committed_only and saw and len(saw) < len(could):
                    found.append(Problem("torn transaction", f"{reader} saw {len(saw)} of {len(could)} of {transaction}"))
        return found

    def duplicates(self) -> list[Problem]:
        found = []
        for reader, places in self.seen.items():
            first: dict[str, tuple[Place, int]] = {}
            for place, by_offset in places.items():
                for offset, read in by_offset.items():
                    if read.committed_only and first.setdefault(read.value, (place, offset)) != (place, offset):
                        found.append(
                            Problem("duplicate", f"{reader} saw {read.value!r} at {first[read.value]} and {place} {offset}")
                        )
        return found

    def divergences(self) -> list[Problem]:
        found = []
        at: dict[tuple[Place, int], str] = {}
        for event in (*self.writes, *self.reads):
            known = at.setdefault((event.place, event.offset), event.value)
            if known != event.value:
                found.append(
                    Problem("offset divergence", f"{known!r} and {event.value!r} are both at {event.place} {event.offset}")
                )
        last: dict[tuple[str, Place], int] = {}
        for read in self.reads:
            key = (read.reader, read.place)
            if read.offset <= last.get(key, -1):
                found.append(Problem("offset divergence", f"{read.reader} went from {last[key]} to {read.offset}"))
            last[key] = read.offset
        written: dict[tuple[str | None, str], tuple[Place, int]] = {}
        for write in self.writes:
            written[write.transaction, write.value] = (write.place, write.offset)
        for read in self.reads:
            known_place = written.get((read.transaction, read.value))
            if known_place is not None and known_place != (read.place, read.offset):
                found.append(
                    Problem("offset divergence", f"{read.value!r} was acknowledged at {known_place}, read at {read.offset}")
                )
        return found

    def _saw(self, reader: str, write: Wrote) -> bool:
        read = self.seen[reader][write.place].get(write.offset) if reader in self.seen else None
        return read is not None and read.value == write.value
