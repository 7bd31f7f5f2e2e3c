"""How far groups are behind: for each group and partition, where it stands and where the log ends.

Lag is what a group has not read yet of what readers may see: the high watermark less the committed offset, never below
zero. Records that retention removed in the meantime are not waiting any more: what was committed below the start of the
log counts from there. A share group tells its own lag, which leaves out what is done above its start (KIP-1226).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from headrace.broker.groups import GroupError, GroupKind
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.groups.group import GroupListing


@dataclass(frozen=True, slots=True)
class PartitionLag:
    topic: str
    partition: int
    committed: int
    lag: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    group_id: str
    kind: GroupKind
    state: str
    members: int
    partitions: tuple[PartitionLag, ...]


async def group_lags(broker: Broker) -> AsyncIterator[GroupLag]:
    """Group by group, so that whoever asks can let others go on in between."""
    for listing in broker.groups.list_groups():
        if broker.groups.find(listing.group_id) is not None:
            yield await lag_of(broker, listing)


async def lag_of(broker: Broker, listing: GroupListing) -> GroupLag:
    """Of one group."""
    if listing.kind is GroupKind.SHARE:
        partitions = await _shared(broker, listing.group_id)
    else:
        partitions = _committed(broker, listing.group_id)
    members = len(getattr(broker.groups.find(listing.group_id), "members", ()))
    return GroupLag(listing.group_id, listing.kind, listing.state, members, tuple(partitions))


def _committed(broker: Broker, group_id: str) -> list[PartitionLag]:
    found = []
    for topic, by_index in broker.groups.positions(group_id).items():
        for index, position in by_index.items():
            partition = broker.log.partition(topic, index)
            if partition is not None:
                read = max(position.offset, partition.start_offset)
                found.append(PartitionLag(topic, index, position.offset, max(0, partition.high_watermark - read)))
    return found


async def _shared(broker: Broker, group_id: str) -> list[PartitionLag]:
    try:
        standings = await broker.share_groups.offsets.describe(group_id, None)
    except GroupError:
        return []
    return [
        PartitionLag(topic.topic, standing.partition, standing.start_offset, max(0, standing.lag))
        for topic in standings
        for standing in topic.partitions
        if standing.start_offset >= 0 and standing.lag >= 0
    ]
