"""ConsumerGroupHeartbeat: members of a new-style group join, stay, get partitions and leave (KIP-848)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import INT32, STRING, array, int16, int32, nested, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class TopicPartitions(Struct):
    topic_id: UUID = uuid()
    partitions: list[int] = array(INT32)


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions=(0, 1), flexible=0):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(STRING, nullable=True, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable=True, default=None)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable=True, default=None)
