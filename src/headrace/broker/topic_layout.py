"""How many partitions a topic is to have, how many copies, and on which nodes: the rules and texts of Apache Kafka 4.3 on one
node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.topic_errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    PolicyViolation,
)
from headrace.log.errors import InvalidPartitions

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.topics import NewTopic

MAX_PARTITIONS_PER_REQUEST = 10_000


def planned_partitions(new: NewTopic, settings: Settings) -> int:
    """How many partitions it would get, without any check."""
    if new.assignments:
        return len(new.assignments)
    return settings.get_int("num.partitions") if new.partitions == -1 else max(new.partitions, 0)


def check_request_size(partitions: int) -> None:
    """Kafka's limit on what one request may create."""
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolation("Excessively large number of partitions per request.")


def check_layout(new: NewTopic, settings: Settings) -> int:
    """Returns the number of partitions. Raises InvalidPartitions, InvalidReplicationFactor, InvalidReplicaAssignment,
    InvalidRequest."""
    if not new.assignments:
        _check_counts(new)
        return planned_partitions(new, settings)
    if new.replication_factor != -1:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if new.partitions != -1:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    seen: set[int] = set()
    for partition, nodes in new.assignments:
        if partition in seen:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {partition}")
        check_assignment(nodes, settings)
        seen.add(partition)
    if seen != set(range(len(seen))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return len(seen)


def _check_counts(new: NewTopic) -> None:
    copies = new.replication_factor
    if copies < -1 or copies == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if new.partitions < -1 or new.partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if copies > 1:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {copies} time(s): The target replication factor of {copies} cannot "
            "be reached because only 1 broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )


def check_growth(name: str, now: int, total: int, assignments: Sequence[Sequence[int]] | None, settings: Settings) -> None:
    """Whether a topic may go from `now` to `total` partitions; raises InvalidPartitions, InvalidReplicaAssignment,
    PolicyViolation."""
    if total == now:
        raise InvalidPartitions(f"Topic already has {now} partition(s).")
    if total < now:
        raise InvalidPartitions(f"The topic {name} currently has {now} partition(s); {total} would not be an increase.")
    if assignments is not None:
        if len(assignments) != total - now:
            raise InvalidReplicaAssignment(
                f"Attempted to add {total - now} additional partition(s), but only {len(assignments)} "
                "assignment(s) were specified."
            )
        for nodes in assignments:
            check_assignment(nodes, settings, copies=1)
    check_request_size(total - now)


def check_assignment(nodes: Sequence[int], settings: Settings, *, copies: int | None = None) -> None:
    """Whether copies may be on these nodes; raises InvalidReplicaAssignment."""
    if not nodes:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    this_node = settings.get_int("node.id")
    seen: set[int] = set()
    for node in sorted(nodes):
        if node != this_node:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node}, but no such broker is registered."
            )
        if node in seen:
            raise InvalidReplicaAssignment(f"The manual partition assignment includes the broker {node} more than once.")
        seen.add(node)
    if copies is not None and len(nodes) != copies:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(nodes)} replica(s), but this is not "
            f"consistent with previous partitions, which have {copies} replica(s)."
        )
