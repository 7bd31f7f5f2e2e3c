"""Where to write instead, when the partition that was picked is sealed (a closed shard of a Kinesis stream).

The same key finds the same partition, as long as none is sealed or opened. Where none is open the pick stays, and the log says
why it can't be written: a reshard is under way, and a moment later there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.log.port import Partition
from headrace.record.partitioner import murmur2

_POSITIVE = 0x7FFF_FFFF


def open_for_key(key: bytes, picked: int, partitions: Sequence[Partition]) -> int:
    if not partitions[picked].sealed:
        return picked
    # what is left of the hash after the pick: those who picked the same are spread
    return open_in_turn((murmur2(key) & _POSITIVE) // len(partitions), picked, partitions)


def open_in_turn(turn: int, picked: int, partitions: Sequence[Partition]) -> int:
    if not partitions[picked].sealed:
        return picked
    unsealed = [index for index, partition in enumerate(partitions) if not partition.sealed]
    return unsealed[turn % len(unsealed)] if unsealed else picked
