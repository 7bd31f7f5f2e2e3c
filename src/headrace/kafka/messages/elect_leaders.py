"""ElectLeaders: asks for a leader election, preferred or unclean, for these partitions or for all."""

from __future__ import annotations

from headrace.kafka.codec.fields import INT32, array, int8, int16, int32, string
from headrace.kafka.codec.schema import Request, Response, Struct


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class ElectLeadersRequest(Request, api_key=43, versions=(0, 2), flexible=2):
    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable=True)
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, api_key=43, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
