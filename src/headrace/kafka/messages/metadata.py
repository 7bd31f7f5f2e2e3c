"""Metadata: which brokers there are, which topics, and who leads each partition.

No list of topics means all of them; in version 0, which knows no null, an empty list does.
"""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import INT32, array, boolean, int16, int32, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class MetadataRequestTopic(Struct):
    topic_id: UUID = uuid(since=10)
    name: str | None = string(nullable=10)


class MetadataRequest(Request, api_key=3, versions=(0, 13), flexible=9):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=True, default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, since=5)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable=12)
    topic_id: UUID = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-(1 << 31))


class MetadataResponse(Response, api_key=3, versions=(0, 13), flexible=9):
    throttle_time_ms: int = int32(since=3)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=True, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-(1 << 31))
    error_code: int = int16(since=13)
