"""ElectLeaders, versions 0 to 2: asks for the election of leaders, preferred or unclean (KIP-183, KIP-460).

One node leads every partition, and it is the preferred one, so an election is never needed. For all partitions (a null
list) those that need none are left out, as in Kafka.

v1 the type of election and an error for the whole response · v2 flexible
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


def handle(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        why = f"Unknown election type {request.election_type}"
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            replica_election_results=[
                ReplicaElectionResult(
                    topic=topic.topic,
                    partition_result=[
                        PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=why)
                        for index in topic.partitions
                    ],
                )
                for topic in request.topic_partitions or ()
            ],
        )
    if request.topic_partitions is None:
        return ElectLeadersResponse(
            replica_election_results=[ReplicaElectionResult(topic=topic.name) for topic in call.broker.topics.all()]
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_elect(call, topic.topic, index) for index in topic.partitions],
            )
            for topic in request.topic_partitions
        ]
    )


def _elect(call: Call, name: str, index: int) -> PartitionResult:
    topic = call.broker.topics.get(name)
    if topic is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < len(topic.partitions):
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        code, text = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=text)
