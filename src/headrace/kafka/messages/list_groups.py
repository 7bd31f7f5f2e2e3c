"""ListGroups: the groups that a broker looks after, by state and by type if so asked."""

from __future__ import annotations

from headrace.kafka.codec.fields import STRING, array, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class ListGroupsRequest(Request, api_key=16, versions=(0, 5), flexible=3):
    states_filter: list[str] = array(STRING, since=4)
    types_filter: list[str] = array(STRING, since=5)


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


class ListGroupsResponse(Response, api_key=16, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
