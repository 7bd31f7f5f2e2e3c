"""InitializeShareGroupState: starts the state of share partitions at an offset (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, int16, int32, int64, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class PartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Request, api_key=83, versions=(0, 0), flexible=0):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class InitializeStateResult(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, api_key=83, versions=(0, 0), flexible=0):
    results: list[InitializeStateResult] = array(InitializeStateResult)
