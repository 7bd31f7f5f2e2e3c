"""AlterPartitionReassignments, versions 0 to 1: moves partitions to other brokers, or stops such a move (KIP-455).

The only place a partition can be is this node: a move there is done at once, any other is refused, and there is never a
move to stop.

v1 whether the number of copies may change (KIP-860)
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.broker.topic_layout import check_assignment
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.log.errors import LogError, UnknownTopic


def handle(call: Call, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(call, topic.name, partition.partition_index, partition.replicas) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(call: Call, name: str, index: int, nodes: Sequence[int] | None) -> ReassignablePartitionResponse:
    try:
        topic = call.broker.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"Unable to find a topic named {name}.")
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopic(f"Unable to find partition {name}:{index}.")
        if nodes is None:
            return ReassignablePartitionResponse(
                partition_index=index, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, error_message=None
            )
        check_assignment(nodes, call.broker.settings)
    except LogError as error:
        return ReassignablePartitionResponse(partition_index=index, error_code=code_of(error), error_message=text_of(error))
    return ReassignablePartitionResponse(partition_index=index, error_message=None)
