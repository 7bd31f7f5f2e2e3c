"""Who reads what in a classic consumer group: the range assignor.

Each member gets a contiguous range of every topic's partitions, in the order of member ids, the first ones getting one more:
what the Java client's assignor of that name does, because any member may be the leader and all must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.client.kafka.errors import ProtocolViolation
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    from_bytes,
    to_bytes,
)

Assignment = dict[str, list[int]]


def encode_subscription(topics: Iterable[str]) -> bytes:
    return to_bytes(ConsumerProtocolSubscription(topics=sorted(set(topics))), 0)


def decode_subscription(data: bytes) -> list[str]:
    try:
        return from_bytes(ConsumerProtocolSubscription, data).topics
    except MalformedMessage:
        raise ProtocolViolation("a group member sent a subscription that can't be read") from None


def encode_assignment(assignment: Mapping[str, Iterable[int]]) -> bytes:
    parts = [TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in sorted(assignment.items())]
    return to_bytes(ConsumerProtocolAssignment(assigned_partitions=parts), 0)


def decode_assignment(data: bytes) -> Assignment:
    if not data:  # a member that was given nothing
        return {}
    try:
        return {part.topic: part.partitions for part in from_bytes(ConsumerProtocolAssignment, data).assigned_partitions}
    except MalformedMessage:
        raise ProtocolViolation("a group member was sent an assignment that can't be read") from None


def assign_range(subscriptions: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]) -> dict[str, Assignment]:
    """`subscriptions` is topics by member id."""
    wanted = {member: set(topics) for member, topics in subscriptions.items()}
    assigned: dict[str, Assignment] = {member: {} for member in wanted}
    for topic in sorted(set().union(*wanted.values())):
        members = sorted(member for member, topics in wanted.items() if topic in topics)
        share, extra = divmod(partition_counts.get(topic, 0), len(members))
        first = 0
        for position, member in enumerate(members):
            size = share + (position < extra)
            if size:
                assigned[member][topic] = list(range(first, first + size))
            first += size
    return assigned
