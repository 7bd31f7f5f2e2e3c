"""OffsetForLeaderEpoch, versions 2 to 4: where a leader's epoch ended, so that a reader notices a log that was cut.

Behaviour: one node has one epoch, 0, which ends where the log ends now. Any other epoch is unknown (-1).

Versions: 2 the current leader epoch is checked (KIP-320) · 3 replica id · 4 flexible.
"""

from __future__ import annotations

from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(call, topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(call: Call, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    partition = call.broker.log.partition(topic, wanted.partition)
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif wanted.current_leader_epoch > partition.leader_epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif 0 <= wanted.current_leader_epoch < partition.leader_epoch:
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
    elif wanted.leader_epoch == partition.leader_epoch:
        answer.leader_epoch = partition.leader_epoch
        answer.end_offset = partition.high_watermark
    return answer
