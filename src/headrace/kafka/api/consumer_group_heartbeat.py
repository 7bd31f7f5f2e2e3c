"""ConsumerGroupHeartbeat, versions 0 to 1 (KIP-848): a member joins a consumer group, stays in it, hears which partitions it
should have, says which it has, and leaves. Answered when what it changed is durable.

The epoch says what it is about: 0 joins, -1 leaves, -2 leaves for a while (static members), any other is the member's own.
FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID mean: give up everything and join again. UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID:
somebody else has this instance id. UNSUPPORTED_ASSIGNOR, GROUP_MAX_SIZE_REACHED, and GROUP_ID_NOT_FOUND where a group of
another kind is in the way.

1: subscription by a regular expression, INVALID_REGULAR_EXPRESSION, and the member makes its own id (KIP-1082)
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from headrace.broker.groups import GroupError, Heartbeat, HeartbeatAnswer
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


async def handle(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else frozenset(topics),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=call.client_id or "",
        client_host=call.client_host,
        makes_own_id=call.version >= 1,
    )
    try:
        answer = await call.broker.groups.consumer_heartbeat(heartbeat)
    except GroupError as error:
        return ConsumerGroupHeartbeatResponse(error_code=code_of(error), error_message=str(error) or None)
    return _response(answer)


def _owned(partitions: Iterable[TopicPartitions]) -> dict[UUID, frozenset[int]]:
    owned: dict[UUID, frozenset[int]] = {}
    for topic in partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in answer.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=assignment,
    )
