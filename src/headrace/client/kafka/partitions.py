"""Requests that go to the leaders of many partitions: sorted by leader, and again for those that moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.client.kafka.errors import RETRIABLE, ProtocolViolation, Refused
from headrace.kafka.codec.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Cluster
    from headrace.client.kafka.connection import Connection

T = TypeVar("T")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition], float], Mapping[TopicPartition, tuple[int, T]]],
) -> dict[TopicPartition, T]:
    """Calls `ask` once for each leader and gathers (code, result) for each partition. Partitions whose code says "not now"
    or "not here" are asked for again until the deadline; any other code is raised."""
    deadline = cluster.deadline()
    left = set(partitions)
    done: dict[TopicPartition, T] = {}

    def attempt() -> None:
        refused: Refused | None = None
        for leader, wanted in by_leader(cluster, left).items():
            answers = ask(cluster.to(leader), wanted, deadline)
            for partition in wanted:
                if partition not in answers:
                    raise ProtocolViolation(f"the server left {partition} out of its answer")
                code, result = answers[partition]
                if code == 0:
                    done[partition] = result
                    left.discard(partition)
                elif code in RETRIABLE:
                    refused = Refused(str(partition), code)
                else:
                    raise Refused(str(partition), code)
        if refused is not None:
            raise refused

    cluster.retry(attempt, deadline)
    return done


def by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Raises Refused, worth another try, when one of them has no leader."""
    topics = cluster.topics(partition.topic for partition in partitions)
    leaders: dict[int, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        leader = topics[partition.topic].partition(partition.partition).leader
        if leader < 0:
            raise Refused(str(partition), ErrorCode.LEADER_NOT_AVAILABLE)
        leaders.setdefault(leader, []).append(partition)
    return leaders
