"""DescribeQuorum, versions 0 to 2: the quorum behind the cluster's metadata (KIP-595).

One node is a quorum of one: it leads and it is the only voter. Definitions are kept in tables of the log, not in a
metadata log of their own, so there are no offsets to show.

v1 times of the last fetch (KIP-836) · v2 error texts, directory ids and the voters' addresses (KIP-853)
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

METADATA = "__cluster_metadata"


def handle(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    known = len(request.topics) == 1 and (
        request.topics[0].topic_name == METADATA
        and [partition.partition_index for partition in request.topics[0].partitions] == [0]
    )
    if not known:
        return DescribeQuorumResponse(
            topics=[
                ResponseTopicData(
                    topic_name=topic.topic_name,
                    partitions=[
                        ResponsePartitionData(
                            partition_index=partition.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            error_message="This server does not host this topic-partition.",
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    now = call.broker.clock.now_ms()
    voter = ReplicaState(replica_id=call.broker.node_id, last_fetch_timestamp=now, last_caught_up_timestamp=now)
    quorum = ResponsePartitionData(leader_id=call.broker.node_id, current_voters=[voter])
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA, partitions=[quorum])],
        nodes=[
            Node(
                node_id=call.broker.node_id,
                listeners=[Listener(name="CONTROLLER", host=call.host, port=call.port)],
            )
        ],
    )
