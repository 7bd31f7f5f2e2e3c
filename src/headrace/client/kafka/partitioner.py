"""Which partition a record goes to: the same answer as Kafka's Java client, so that keys stay together whoever writes them.

With a key: murmur2 of the key, made positive, modulo the number of partitions (available or not). Without a key: one
partition at random for a whole batch, then another (the sticky partitioner, KIP-480).
"""

from __future__ import annotations

import random

from headrace.record.partitioner import murmur2, partition_for_key

__all__ = ["StickyChoice", "murmur2", "partition_for_key"]


class StickyChoice:
    """The partition that records without a key go to until `move` is called, for one topic."""

    def __init__(self, partitions: int, chance: random.Random) -> None:
        self._partitions = partitions
        self._chance = chance
        self.current = chance.randrange(partitions)

    def move(self) -> None:
        if self._partitions > 1:
            step = self._chance.randrange(1, self._partitions)
            self.current = (self.current + step) % self._partitions
