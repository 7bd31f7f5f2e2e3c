"""JoinGroup, versions 0 to 9: a member enters a classic group, or its next generation. Answered when the rebalance has all
its members.

1: a rebalance timeout beside the session timeout (KIP-62) · 2: throttle time · 4: a new member is given its id first and
joins with it (KIP-394) · 5: static members (KIP-345) · 6: flexible · 7: protocol type in the answer, and no protocol name
instead of an empty one (KIP-559) · 8: reason (KIP-800) · 9: a leader may be told to skip the assignment (KIP-814)
"""

from __future__ import annotations

from headrace.broker.groups import GroupError, Join, Joined
from headrace.kafka.call import Call
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_MAX_REASON_CHARS = 255  # what clients themselves keep to


async def handle(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    join = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=call.client_host,
        protocol_type=request.protocol_type,
        protocols=tuple(protocols.items()),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms,
        reason=request.reason and request.reason[:_MAX_REASON_CHARS],
        requires_member_id=call.version >= 4,
        can_skip_assignment=call.version >= 9,
    )
    try:
        joined = await call.broker.groups.join(join)
    except GroupError as error:
        return JoinGroupResponse(
            error_code=code_of(error),
            member_id=request.member_id if error.member_id is None else error.member_id,
            protocol_name=None if call.version >= 7 else "",
        )
    return _response(call.version, joined)


def _response(version: int, joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if version >= 7 else joined.protocol or "",
        leader=joined.leader or "",
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in joined.members
        ],
    )
