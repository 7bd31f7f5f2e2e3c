"""ShareGroupDescribe: state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import INT32, STRING, array, boolean, int16, int32, nested, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class ShareGroupDescribeRequest(Request, api_key=77, versions=(1, 1), flexible=0):
    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    assignment: Assignment = nested(Assignment)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(1 << 31))


class ShareGroupDescribeResponse(Response, api_key=77, versions=(1, 1), flexible=0):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
