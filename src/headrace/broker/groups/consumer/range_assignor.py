"""The `range` assignor: each member gets one run of each topic's partitions, so that topics with as many partitions are
read together (partition 3 of each by the same member).

Members are taken in the order of their names, static ones first by their instance ids; the first ones get one partition
more where it does not divide evenly. That makes it stick as long as nobody comes or goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from headrace.broker.groups.consumer.assignors import PartitionCounts, Subscriber
from headrace.broker.groups.consumer.member import Target


def assign_ranges(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, Target]:
    readers = Counter(topic_id for subscriber in subscribers for topic_id in subscriber.topics)
    turns: Counter[UUID] = Counter()
    assignment: dict[str, Target] = {}
    for subscriber in sorted(subscribers, key=_order):
        given: dict[UUID, frozenset[int]] = {}
        for topic_id in subscriber.topics:
            least, extra = divmod(counts[topic_id], readers[topic_id])
            turn = turns[topic_id]
            turns[topic_id] += 1
            start = turn * least + min(turn, extra)
            end = start + least + (turn < extra)
            if start < end:
                given[topic_id] = frozenset(range(start, end))
        assignment[subscriber.member_id] = given
    return assignment


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
