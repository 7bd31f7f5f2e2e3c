"""Where partitions begin and end, and which offset a time stands for (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from headrace.client.kafka.cluster import Cluster
from headrace.client.kafka.connection import Connection
from headrace.client.kafka.partitions import TopicPartition, ask_leaders
from headrace.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2


class Isolation(IntEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    """-1 when no record is as late as the time asked for."""

    offset: int
    timestamp_ms: int


def list_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the first record at or after a time in milliseconds; LATEST and EARLIEST are the ends."""

    def ask(
        connection: Connection, wanted: list[TopicPartition], deadline: float
    ) -> dict[TopicPartition, tuple[int, FoundOffset]]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition in wanted:
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
            topic.partitions.append(ListOffsetsPartition(partition_index=partition.partition, timestamp=times[partition]))
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=list(topics.values()),
            timeout_ms=int(cluster.timeout_s * 1000),
        )
        answer = connection.call(request, ListOffsetsResponse, deadline)
        return {
            TopicPartition(topic.name, one.partition_index): (one.error_code, FoundOffset(one.offset, one.timestamp))
            for topic in answer.topics
            for one in topic.partitions
        }

    return ask_leaders(cluster, times, ask)


def start_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    return {partition: one.offset for partition, one in found.items()}


def end_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
    return {partition: one.offset for partition, one in found.items()}
