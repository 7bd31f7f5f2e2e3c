"""What a server-side assignor gets and gives, and which ones there are.

An assignor is a pure function: who subscribes to which topics and has what so far, how many partitions each topic has;
it returns what everybody should have. Racks are not looked at: one node is one rack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from headrace.broker.groups.consumer.member import Target
from headrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Subscriber:
    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]  # those that exist
    has: Target  # by the last target assignment


PartitionCounts = Mapping[UUID, int]
Assignor = Callable[[Sequence[Subscriber], PartitionCounts], dict[str, Target]]


def all_alike(subscribers: Sequence[Subscriber]) -> bool:
    """Whether all subscribe to the same topics."""
    first = subscribers[0].topics
    return all(subscriber.topics is first or subscriber.topics == first for subscriber in subscribers)


def assignor_named(name: str) -> Assignor:
    """KeyError for one that does not exist."""
    from headrace.broker.groups.consumer.range_assignor import assign_ranges
    from headrace.broker.groups.consumer.uniform import assign_uniformly

    return {"uniform": assign_uniformly, "range": assign_ranges}[name]
