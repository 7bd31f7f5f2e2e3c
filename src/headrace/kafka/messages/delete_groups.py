"""DeleteGroups: removes groups that have no members, with their offsets."""

from __future__ import annotations

from headrace.kafka.codec.fields import STRING, array, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class DeleteGroupsRequest(Request, api_key=42, versions=(0, 2), flexible=2):
    groups_names: list[str] = array(STRING)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, api_key=42, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
