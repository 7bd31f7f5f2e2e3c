"""LeaveGroup, versions 0 to 5: members leave a classic group at once instead of when their session runs out.

Without a member id, the instance id alone removes a static member: that is how an administrator does it.

1: throttle time · 3: several members, each with its own error (KIP-345) · 4: flexible · 5: reason (KIP-800)
"""

from __future__ import annotations

from headrace.broker.groups import GroupError, Leaver
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_MAX_REASON_CHARS = 255


async def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if call.version >= 3:
        leavers = [
            Leaver(member.member_id, member.group_instance_id, member.reason and member.reason[:_MAX_REASON_CHARS])
            for member in request.members
        ]
    else:
        leavers = [Leaver(request.member_id)]
    try:
        answers = call.broker.groups.leave(request.group_id, leavers)
        await call.broker.groups.store.synced()  # a member of a consumer group must not come back after a crash
    except GroupError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    if call.version < 3:
        return LeaveGroupResponse(error_code=code_of(answers[0]))
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code_of(answer))
            for leaver, answer in zip(leavers, answers, strict=True)
        ]
    )
