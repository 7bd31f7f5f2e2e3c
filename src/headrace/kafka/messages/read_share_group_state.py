"""ReadShareGroupState: the stored delivery state of share partitions (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, int8, int16, int32, int64, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Request, api_key=84, versions=(0, 0), flexible=0):
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Response, api_key=84, versions=(0, 0), flexible=0):
    results: list[ReadStateResult] = array(ReadStateResult)
