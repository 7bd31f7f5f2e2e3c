"""How many records of each partition a micro-batch takes when `maxOffsetsPerTrigger` bounds it.

The bound is shared out in proportion to what waits in each partition, and every partition that has something gives at least
one record, so that none starves however small it is. The batch is therefore as large as the bound, or as the number of
partitions with records where that is more, or as everything there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.client.kafka.partitions import TopicPartition
from headrace.spark.source.offsets import Offsets


def share_out(most: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Where a batch of `most` records ends that begins at `start`, when `end` is all there is. A partition that `start` does
    not have begins at 0."""
    waiting = {partition: last - start.get(partition, 0) for partition, last in end.items()}
    waiting = {partition: size for partition, size in waiting.items() if size > 0}
    if sum(waiting.values()) <= most:
        return dict(end)
    shares = _shares(max(most, len(waiting)), waiting)
    return {
        partition: start.get(partition, 0) + shares[partition] if partition in shares else last
        for partition, last in end.items()
    }


def _shares(most: int, waiting: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Whole numbers that add up to `most`, in proportion to what waits and each at least one.

    Partitions whose share would be less than one get one and are set aside, which makes the others' shares smaller, so that
    more may have to be set aside. The others get the whole part of their share, and what rounding left over goes, one by one,
    to the largest remainders. None gets more than waits: `most` is less than all that waits, and setting one aside takes less
    than its part of that.
    """
    shares: dict[TopicPartition, int] = {}
    left, total = most, sum(waiting.values())
    others = dict(waiting)
    while small := [partition for partition, size in others.items() if left * size < total]:
        for partition in small:
            shares[partition] = 1
            total -= others.pop(partition)
        left -= len(small)
    whole = {partition: divmod(left * size, total) for partition, size in others.items()}
    over = left - sum(share for share, _ in whole.values())
    largest = sorted(whole, key=lambda partition: (-whole[partition][1], partition))[:over]
    shares |= {partition: share for partition, (share, _) in whole.items()}
    for partition in largest:
        shares[partition] += 1
    return shares
