"""A shard: one partition of the stream's topic, and the part of the hash keys that goes there.

The shard of index n is partition n. All hash keys, 0 to 2**128 - 1, are divided among the open shards without gaps. A shard
that was split or merged is closed: it keeps what it holds until retention takes it, and gets nothing more. Only `Streams`
changes a shard, and only once the change is durable.
"""

from __future__ import annotations

import re
from itertools import pairwise

from headrace.broker.streams.sequence import sequence_number

HASH_KEYS = 1 << 128

_ID = re.compile(r"(?:[^-]*-)?0*(\d{1,10})", re.ASCII)
_MAX_INDEX = 2**31 - 1


class Shard:
    __slots__ = (
        "adjacent",
        "closed_at",
        "closed_ms",
        "created_ms",
        "expired",
        "first_hash",
        "id",
        "index",
        "last_hash",
        "parent",
    )

    def __init__(
        self,
        index: int,
        first_hash: int,
        last_hash: int,
        created_ms: int,
        parent: int | None = None,
        adjacent: int | None = None,
        closed_ms: int | None = None,
        closed_at: int | None = None,
        expired: bool = False,
    ) -> None:
        self.index = index
        self.id = shard_id(index)
        self.first_hash = first_hash
        self.last_hash = last_hash
        self.created_ms = created_ms
        self.parent = parent  # the shard that it came from, by index
        self.adjacent = adjacent  # the second one, of a merge
        self.closed_ms = closed_ms
        self.closed_at = closed_at  # the offset behind its last record; None while it is open
        self.expired = expired  # retention has taken everything, and a longer one does not bring it back

    def __repr__(self) -> str:
        state = "open" if self.closed_at is None else f"closed at {self.closed_at}"
        return f"<{self.id} {self.first_hash}..{self.last_hash} {state}>"

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(parent for parent in (self.parent, self.adjacent) if parent is not None)

    def sequence_number(self, offset: int) -> str:
        """Of its record at this offset."""
        if self.parent is None:  # the stream was made with it
            return sequence_number(0, offset, 0)
        return sequence_number(self.created_ms, offset, self.index)

    @property
    def starting_sequence_number(self) -> str:
        """Below that of its first record."""
        return self.sequence_number(-1)

    @property
    def ending_sequence_number(self) -> str | None:
        """Above that of its last record; None while it is open."""
        return None if self.closed_at is None else self.sequence_number(self.closed_at)

    def copy(self) -> Shard:
        return Shard(
            self.index,
            self.first_hash,
            self.last_hash,
            self.created_ms,
            self.parent,
            self.adjacent,
            self.closed_ms,
            self.closed_at,
            self.expired,
        )


def shard_id(index: int) -> str:
    return f"shardId-{index:012d}"


def parse_shard_id(text: str) -> int | None:
    """The index in it, or None. As with Amazon's, zeros and the word in front may be missing, or be another."""
    found = _ID.fullmatch(text)
    return None if found is None or int(found[1]) > _MAX_INDEX else int(found[1])


def uniform_ranges(count: int) -> list[tuple[int, int]]:
    """All hash keys in so many equal ranges, each with its last key."""
    starts = [HASH_KEYS * number // count for number in range(count + 1)]
    return [(first, behind - 1) for first, behind in pairwise(starts)]


def uniform_shards(count: int, created_ms: int) -> list[Shard]:
    return [Shard(index, first, last, created_ms) for index, (first, last) in enumerate(uniform_ranges(count))]
