"""ReadShareGroupStateSummary: the stored start offset of share partitions, without the batches behind it (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from headrace.kafka.codec.fields import array, int16, int32, int64, string, uuid
from headrace.kafka.codec.schema import Request, Response, Struct


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Request, api_key=87, versions=(0, 1), flexible=0):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(since=1, default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions=(0, 1), flexible=0):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
