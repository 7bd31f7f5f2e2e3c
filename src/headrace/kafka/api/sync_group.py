"""SyncGroup, versions 0 to 5: the leader brings the assignment of its generation, everybody fetches their own part.
Answered when the assignment is durable.

1: throttle time · 3: static members (KIP-345) · 4: flexible · 5: protocol type and name, which must be the group's (KIP-559)
"""

from __future__ import annotations

from headrace.broker.groups import GroupError, Sync
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.group_errors import code_of
from headrace.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    sync = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((given.member_id, given.assignment) for given in request.assignments),
    )
    try:
        synced = await call.broker.groups.sync(sync)
    except GroupError as error:
        return SyncGroupResponse(error_code=code_of(error))
    return SyncGroupResponse(protocol_type=synced.protocol_type, protocol_name=synced.protocol, assignment=synced.assignment)
