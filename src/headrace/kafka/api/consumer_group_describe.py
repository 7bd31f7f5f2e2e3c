"""ConsumerGroupDescribe, versions 0 to 1 (KIP-848): consumer groups with their epochs, members and assignments.

A group that does not exist, or is of another kind, is GROUP_ID_NOT_FOUND; tools ask DescribeGroups then. What a member has
includes what it has been told to give up and has not yet. 1: whether a member speaks the classic or the consumer protocol
(KIP-1099)
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from headrace.broker.groups import ConsumerGroupDescription, GroupError
from headrace.broker.groups.consumer.member import Member as GroupMember
from headrace.broker.groups.consumer.member import Target
from headrace.kafka import operations
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1


def handle(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    allowed = operations.GROUP if request.include_authorized_operations else operations.NOT_ASKED
    return ConsumerGroupDescribeResponse(groups=[_describe(call, group_id, allowed) for group_id in request.group_ids])


def _describe(call: Call, group_id: str, allowed: int) -> DescribedGroup:
    try:
        group: ConsumerGroupDescription = call.broker.groups.describe_consumer(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=str(error) or None)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(call, member, target) for member, target in group.members],
        authorized_operations=allowed,
    )


def _member(call: Call, member: GroupMember, target: Target) -> Member:
    has: dict[UUID, set[int]] = {}
    for assigned in (member.assigned, member.revoking):
        for topic_id, partitions in assigned.items():
            has.setdefault(topic_id, set()).update(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(call, has.items()),
        target_assignment=_assignment(call, target.items()),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(call: Call, partitions: Iterable[tuple[UUID, Iterable[int]]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions
            if (topic := call.broker.topics.by_id(topic_id)) is not None
        ]
    )
