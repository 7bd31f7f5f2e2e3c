"""ShareGroupDescribe, version 1: state, epochs, members and assignments of share groups.

A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND.

1: the first that is not a draft (KIP-932, Kafka 4.1)
"""

from __future__ import annotations

from uuid import UUID

from headrace.broker.groups import GroupError
from headrace.broker.groups.share.group import MemberView
from headrace.kafka import operations
from headrace.kafka.call import Call
from headrace.kafka.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from headrace.kafka.share_errors import code_of, text_of


def handle(call: Call, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    allowed = operations.GROUP if request.include_authorized_operations else operations.NOT_ASKED
    return ShareGroupDescribeResponse(groups=[_describe(call, group_id, allowed) for group_id in request.group_ids])


def _describe(call: Call, group_id: str, allowed: int) -> DescribedGroup:
    try:
        group = call.broker.share_groups.describe(group_id)
    except GroupError as error:
        return DescribedGroup(error_code=code_of(error), error_message=text_of(error), group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, member) for member in group.members],
        authorized_operations=allowed,
    )


def _member(call: Call, member: MemberView) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(topic_partitions=_assigned(call, member)),
    )


def _assigned(call: Call, member: MemberView) -> list[TopicPartitions]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(member.assignment):
        by_topic.setdefault(topic_id, []).append(index)
    found = ((call.broker.topics.by_id(topic_id), indexes) for topic_id, indexes in by_topic.items())
    return [
        TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=indexes)
        for topic, indexes in found
        if topic is not None
    ]
