"""ListPartitionReassignments, version 0: the moves of partitions that are under way (KIP-455). On one node none ever is."""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
