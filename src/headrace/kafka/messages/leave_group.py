"""LeaveGroup: members leave a classic group.

From version 3 on one request may remove several (KIP-345).
"""

from __future__ import annotations

from headrace.kafka.codec.fields import array, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string(since=5, nullable=True, default=None)


class LeaveGroupRequest(Request, api_key=13, versions=(0, 5), flexible=4):
    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()


class LeaveGroupResponse(Response, api_key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
