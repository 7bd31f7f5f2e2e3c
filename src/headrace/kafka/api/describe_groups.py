"""DescribeGroups, versions 0 to 6: classic groups with their members; metadata only while the group is stable.

A group that does not exist is in state Dead: without error before version 6, with GROUP_ID_NOT_FOUND from then on.

1: throttle time · 3: authorized operations (KIP-430) · 4: group.instance.id (KIP-345) · 5: flexible · 6: GROUP_ID_NOT_FOUND
and an error message (KIP-1043)
"""

from __future__ import annotations

from headrace.broker.groups import GroupDescription, GroupError
from headrace.kafka import operations
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    allowed = operations.GROUP if request.include_authorized_operations else operations.NOT_ASKED
    return DescribeGroupsResponse(groups=[_describe(call, group_id, allowed) for group_id in request.groups])


def _describe(call: Call, group_id: str, allowed: int) -> DescribedGroup:
    try:
        group = call.broker.groups.describe_classic(group_id)
    except GroupError as error:
        if call.version < 6:
            return DescribedGroup(group_id=group_id, group_state="Dead", authorized_operations=allowed)
        return DescribedGroup(group_id=group_id, group_state="Dead", error_code=code_of(error), error_message=str(error))
    return _described(group, allowed)


def _described(group: GroupDescription, allowed: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=allowed,
    )
