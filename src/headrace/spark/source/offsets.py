"""Offsets of many partitions, and their form in the checkpoint: {"topic": {"0": 23}}, that of Spark's Kafka connector.

An offset is that of the next record to read. Spark tells two offsets apart by their JSON text, so topics and partitions are
always in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from headrace.client.kafka.partitions import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
Checkpointed: TypeAlias = dict[str, dict[str, int]]


def to_checkpoint(offsets: Mapping[TopicPartition, int]) -> Checkpointed:
    topics: Checkpointed = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def from_checkpoint(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def from_json(value: Any) -> Offsets:
    """Offsets, or times, that a person wrote; ValueError says what is wrong with them."""
    if not isinstance(value, dict):
        raise ValueError('use {"topic": {"0": 23, "1": -2}}')
    found: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ValueError(f'topic {topic}: use a partition\'s number and its offset, as in {{"0": 23}}')
        for partition, offset in partitions.items():
            if not partition.isascii() or not partition.isdigit():
                raise ValueError(f"topic {topic}: '{partition}' is not the number of a partition")
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise ValueError(f"topic {topic}, partition {partition}: {offset!r} is not a whole number")
            found[TopicPartition(topic, int(partition))] = offset
    return found


def listed(partitions: Mapping[TopicPartition, int] | set[TopicPartition], most: int = 10) -> str:
    """Partitions by name, for errors."""
    names = [str(partition) for partition in sorted(partitions)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
