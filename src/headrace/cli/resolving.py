"""From what was typed to offsets: asks the server what a position means in each partition."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.cli.positions import Anchor, Position
from headrace.client.kafka import Cluster, Isolation, TopicPartition, end_offsets, list_offsets, start_offsets


def resolve(
    cluster: Cluster,
    position: Position,
    partitions: Iterable[TopicPartition],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset in each partition, never outside of what it holds: an offset that is gone becomes the oldest there is, one
    that is not there yet the end."""
    wanted = list(partitions)
    if not wanted:
        return {}
    starts = start_offsets(cluster, wanted)
    ends = end_offsets(cluster, wanted, isolation)
    found = _raw(cluster, position, wanted, starts, ends)
    return {partition: max(starts[partition], min(found[partition], ends[partition])) for partition in wanted}


def _raw(
    cluster: Cluster,
    position: Position,
    wanted: list[TopicPartition],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match position.anchor:
        case Anchor.OFFSET:
            return dict.fromkeys(wanted, position.number)
        case Anchor.START:
            return {partition: starts[partition] + position.number for partition in wanted}
        case Anchor.END:
            return {partition: ends[partition] + position.number for partition in wanted}
        case Anchor.TIME:
            found = list_offsets(cluster, dict.fromkeys(wanted, position.number))
            return {partition: ends[partition] if one.offset < 0 else one.offset for partition, one in found.items()}
