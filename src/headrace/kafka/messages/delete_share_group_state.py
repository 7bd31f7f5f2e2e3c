"""DeleteShareGroupState: forgets the delivery state of share partitions (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, int16, int32, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class PartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Request, api_key=86, versions=(0, 0), flexible=0):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DeleteStateResult(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, api_key=86, versions=(0, 0), flexible=0):
    results: list[DeleteStateResult] = array(DeleteStateResult)
