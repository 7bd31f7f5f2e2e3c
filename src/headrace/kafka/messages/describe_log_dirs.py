"""DescribeLogDirs: the folders of a broker, and how much each partition takes there."""

from __future__ import annotations

from headrace.kafka.codec.fields import INT32, array, boolean, int16, int32, int64, string
from headrace.kafka.codec.schema import Request, Response, Struct


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class DescribeLogDirsRequest(Request, api_key=35, versions=(1, 5), flexible=2):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable=True)


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()
    archived_size: int = int64(since=2, tag=10_000)  # our own: what lies in the archive; others skip the tag (KIP-482)
    dirty_size: int = int64(since=2, tag=10_001)  # our own: what was not compacted yet, in a compacted topic


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5)


class DescribeLogDirsResponse(Response, api_key=35, versions=(1, 5), flexible=2):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
