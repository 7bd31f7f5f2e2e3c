"""DescribeGroups: state, protocol and members of classic groups."""

from __future__ import annotations

from headrace.kafka.codec.fields import STRING, array, blob, boolean, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class DescribeGroupsRequest(Request, api_key=15, versions=(0, 6), flexible=5):
    groups: list[str] = array(STRING)
    include_authorized_operations: bool = boolean(since=3)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-(1 << 31))


class DescribeGroupsResponse(Response, api_key=15, versions=(0, 6), flexible=5):
    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)
