"""ShareGroupHeartbeat, version 1: members of a share group join (epoch 0), stay, get partitions and leave (epoch -1).

The assignment is in the answer when the member has just joined, has named its topics, or has another one than before.

1: the first that is not a draft (KIP-932, Kafka 4.1)
"""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.broker.groups.share.coordinator import Beat
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.kafka.share_errors import text_of


async def handle(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    topics = None if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names)
    beat = Beat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        topics,
        call.client_id or "",
        call.client_host,
    )
    try:
        answer = await call.broker.share_groups.heartbeat(beat)
    except GroupError as error:
        return ShareGroupHeartbeatResponse(error_code=code_of(error), error_message=text_of(error))
    response = ShareGroupHeartbeatResponse(
        member_id=answer.member_id, member_epoch=answer.epoch, heartbeat_interval_ms=answer.heartbeat_interval_ms
    )
    if answer.assignment is not None:
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(answer.assignment):
            by_topic.setdefault(topic_id, []).append(index)
        response.assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in by_topic.items()]
        )
    return response
