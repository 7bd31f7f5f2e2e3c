"""How much a shard takes and gives in a second, where `kinesis.enforce.limits` asks for it: 1 MiB and 1000 records in, 2 MiB
and 5 calls of GetRecords out, 5 calls of GetShardIterator.

Each is a bucket that fills while time goes by and holds what is allowed in a second. Whoever asks while there is nothing in it
is refused; who asks while there is something may take more than that, and leaves a debt: so a page of 10 MiB is given, and the
shard gives nothing for the next five seconds, as on AWS. A record that is larger than a second's worth needs a full bucket.

Bound: `MAX_SHARDS` are remembered; beyond that those who have rested longest are forgotten, which is what a full bucket is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from headrace.clock import Clock

MAX_SHARDS = 20_000
BYTES_IN = 1024 * 1024
RECORDS_IN = 1000
BYTES_OUT = 2 * 1024 * 1024
READS = 5
ITERATORS = 5


class Bucket:
    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._level = float(rate)
        self._at = now

    def level(self, now: float) -> float:
        self._level = min(float(self._rate), self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    def holds(self, amount: int, now: float) -> bool:
        return self.level(now) >= min(amount, self._rate)

    def take(self, amount: int) -> None:
        self._level -= amount


class ShardLimits:
    """The buckets of one shard."""

    __slots__ = ("bytes_in", "bytes_out", "iterators", "reads", "records_in")

    def __init__(self, now: float) -> None:
        self.bytes_in = Bucket(BYTES_IN, now)
        self.records_in = Bucket(RECORDS_IN, now)
        self.bytes_out = Bucket(BYTES_OUT, now)
        self.reads = Bucket(READS, now)
        self.iterators = Bucket(ITERATORS, now)


class Limits:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shards: OrderedDict[tuple[UUID, int], ShardLimits] = OrderedDict()

    def admit_record(self, topic_id: UUID, index: int, size: int) -> bool:
        now = self._clock.monotonic()
        shard = self._of(topic_id, index, now)
        if not (shard.bytes_in.holds(size, now) and shard.records_in.holds(1, now)):
            return False
        shard.bytes_in.take(size)
        shard.records_in.take(1)
        return True

    def admit_read(self, topic_id: UUID, index: int) -> bool:
        """What was read is told by `read` then."""
        now = self._clock.monotonic()
        shard = self._of(topic_id, index, now)
        if shard.bytes_out.level(now) <= 0 or not shard.reads.holds(1, now):
            return False
        shard.reads.take(1)
        return True

    def read(self, topic_id: UUID, index: int, size: int) -> None:
        self._of(topic_id, index, self._clock.monotonic()).bytes_out.take(size)

    def admit_iterator(self, topic_id: UUID, index: int) -> bool:
        now = self._clock.monotonic()
        shard = self._of(topic_id, index, now)
        if not shard.iterators.holds(1, now):
            return False
        shard.iterators.take(1)
        return True

    def _of(self, topic_id: UUID, index: int, now: float) -> ShardLimits:
        key = (topic_id, index)
        found = self._shards.get(key)
        if found is None:
            found = self._shards[key] = ShardLimits(now)
            if len(self._shards) > MAX_SHARDS:
                self._shards.popitem(last=False)
        else:
            self._shards.move_to_end(key)
        return found
