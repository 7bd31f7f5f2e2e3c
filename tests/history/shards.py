"""What writers and readers of a stream that is resharded did and saw, and whether a stream that keeps its promises could have
let them see it.

A put is one attempt to write one record, and its value is like no other's: a writer whose answer was lost writes the same
number again as another attempt. A writer begins an attempt on a key when the one before it on that key was answered or lost, so
the order of a key's attempts is the order in which its records must lie; those that were lost may be there or not.

Faults that are found:

    lost write            acknowledged, but a reader that came to the end did not see it
    duplicate             a reader saw a record twice
    foreign read          a reader saw what nobody wrote, or under another key
    disorder              a reader saw the records of a key in another order than they were written
    divergence            acknowledged in one place and read in another, two records in one place, or two readers that disagree
    beyond the end        a record of a closed shard behind its end, or of a child before its parents' end
    uncovered hash keys   a hash key that no open shard, or more than one, takes records of
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.history.history import Problem

HASH_KEYS = 2**128


@dataclass(frozen=True, slots=True)
class Put:
    """An attempt. Without a place its answer was lost."""

    key: str
    value: str
    shard: str | None = None
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Got:
    shard: str
    sequence: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ShardSeen:
    """As a list of shards showed it."""

    id: str
    first_hash: int
    last_hash: int
    parents: tuple[str, ...]
    starting: int
    ending: int | None  # None: open


def problems(puts: Sequence[Put], read: Mapping[str, Sequence[Got]], shards: Iterable[ShardSeen]) -> list[Problem]:
    """Everything that is wrong; nothing when all of it can be explained. `puts` are in the order in which the attempts on each
    key were begun; `read` is what each reader saw, in its order. Every reader has come to the end."""
    history = _History(puts, read, shards)
    return [
        *history.lost_writes(),
        *history.duplicates(),
        *history.foreign_reads(),
        *history.disorders(),
        *history.divergences(),
        *history.beyond_the_end(),
        *uncovered(history.shards.values()),
    ]


def uncovered(shards: Iterable[ShardSeen]) -> list[Problem]:
    """Whether the open shards take every hash key, and each of them once."""
    found, next_hash = [], 0
    for shard in sorted((one for one in shards if one.ending is None), key=lambda one: one.first_hash):
        if shard.first_hash != next_hash:
            what = "nobody takes" if shard.first_hash > next_hash else "two shards take"
            found.append(Problem("uncovered hash keys", f"{what} those from {next_hash} to {shard.first_hash} ({shard.id})"))
        next_hash = shard.last_hash + 1
    if next_hash != HASH_KEYS:
        found.append(Problem("uncovered hash keys", f"nobody takes those from {next_hash} on"))
    return found


class _History:
    def __init__(self, puts: Sequence[Put], read: Mapping[str, Sequence[Got]], shards: Iterable[ShardSeen]) -> None:
        self.puts = puts
        self.read = read
        self.shards = {shard.id: shard for shard in shards}
        self.by_value = {put.value: put for put in puts}

    def lost_writes(self) -> list[Problem]:
        found = []
        for reader, records in self.read.items():
            seen = {got.value for got in records}
            found += [
                Problem("lost write", f"{reader} missed {put.value!r} at {put.shard} {put.sequence}")
                for put in self.puts
                if put.shard is not None and put.value not in seen
            ]
        return found

    def duplicates(self) -> list[Problem]:
        found = []
        for reader, records in self.read.items():
            seen: dict[str, Got] = {}
            for got in records:
                if (first := seen.get(got.value)) is not None:
                    found.append(Problem("duplicate", f"{reader} saw {got.value!r} at {place(first)} and at {place(got)}"))
                seen[got.value] = got
        return found

    def foreign_reads(self) -> list[Problem]:
        found = []
        for reader, records in self.read.items():
            for got in records:
                put = self.by_value.get(got.value)
                if put is None or put.key != got.key:
                    found.append(Problem("foreign read", f"{reader} saw {got.value!r} under {got.key!r} at {place(got)}"))
        return found

    def disorders(self) -> list[Problem]:
        rank = {put.value: number for number, put in enumerate(self.puts)}
        found = []
        for reader, records in self.read.items():
            last: dict[str, Got] = {}
            for got in records:
                before = last.get(got.key)
                if before is not None and rank.get(got.value, -1) < rank.get(before.value, -1):
                    found.append(Problem("disorder", f"{reader} saw {got.value!r} after {before.value!r}"))
                last[got.key] = got
        return found

    def divergences(self) -> list[Problem]:
        at: dict[tuple[str, int], str] = {}
        found = [
            Problem(
                "divergence", f"{at[put.shard, put.sequence]!r} and {put.value!r} were both put at {put.shard} {put.sequence}"
            )
            for put in self.puts
            if put.shard is not None and at.setdefault((put.shard, put.sequence), put.value) != put.value
        ]
        sets: dict[str, set[tuple[str, str]]] = {}
        for reader, records in self.read.items():
            sets[reader] = {(got.value, place(got)) for got in records}
            in_shard: dict[str, int] = defaultdict(lambda: -1)
            for got in records:
                put = self.by_value.get(got.value)
                if put is not None and put.shard is not None and (put.shard, put.sequence) != (got.shard, got.sequence):
                    found.append(
                        Problem("divergence", f"{got.value!r} was put at {put.shard} {put.sequence}, read at {place(got)}")
                    )
                known = at.setdefault((got.shard, got.sequence), got.value)
                if known != got.value:
                    found.append(Problem("divergence", f"{known!r} and {got.value!r} are both at {place(got)}"))
                if got.sequence <= in_shard[got.shard]:
                    found.append(Problem("divergence", f"{reader} went from {in_shard[got.shard]} back to {place(got)}"))
                in_shard[got.shard] = got.sequence
        everything = set().union(*sets.values())
        for reader, seen in sets.items():
            if missing := everything - seen:
                found.append(Problem("divergence", f"others saw what {reader} did not: {sorted(missing)[:5]}"))
        return found

    def beyond_the_end(self) -> list[Problem]:
        found = []
        for reader, records in self.read.items():
            for got in records:
                shard = self.shards.get(got.shard)
                if shard is None:
                    found.append(Problem("beyond the end", f"{reader} read {place(got)} of a shard that no list has shown"))
                    continue
                if got.sequence < shard.starting or (shard.ending is not None and got.sequence > shard.ending):
                    found.append(Problem("beyond the end", f"{reader} read {place(got)} of {shard}"))
                for name in shard.parents:
                    parent = self.shards.get(name)
                    if parent is not None and (parent.ending is None or got.sequence <= parent.ending):
                        found.append(Problem("beyond the end", f"{reader} read {place(got)} of a child of {parent}"))
        return found


def place(got: Got) -> str:
    return f"{got.shard} {got.sequence}"
