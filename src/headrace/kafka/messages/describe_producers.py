"""DescribeProducers: the idempotent and transactional producers that partitions remember (KIP-664)."""

from __future__ import annotations

from headrace.kafka.codec.fields import INT32, array, int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response, Struct


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array(INT32)


class DescribeProducersRequest(Request, api_key=61, versions=(0, 0), flexible=0):
    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, api_key=61, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
