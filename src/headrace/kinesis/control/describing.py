"""DescribeStream and DescribeStreamSummary. A page of shards has 100 of them unless asked otherwise, 10,000 at most; shards
that closed so long ago that retention has taken all they held are not shown."""

from __future__ import annotations

from typing import Any

from headrace.broker.streams.shard import parse_shard_id
from headrace.broker.streams.shard_filter import shown_shards
from headrace.kinesis.pages import page_of
from headrace.kinesis.service import Call
from headrace.kinesis.shapes import shard_shape, stream_shape, warm_throughput_shape

DEFAULT_PAGE = 100


def describe_stream(call: Call) -> dict[str, Any]:
    stream = call.stream()
    after = parse_shard_id(call.given.get("ExclusiveStartShardId", ""))
    first = 0 if after is None else after + 1
    now_ms = call.broker.clock.now_ms()
    shards = [shard for shard in shown_shards(stream, now_ms) if shard.index >= first]
    page, more = page_of(shards, call.given.get("Limit", DEFAULT_PAGE))
    description = stream_shape(stream)
    description["Shards"] = [shard_shape(stream, shard) for shard in page]
    description["HasMoreShards"] = more
    return {"StreamDescription": description}


def describe_stream_summary(call: Call) -> dict[str, Any]:
    stream = call.stream()
    summary = stream_shape(stream)
    summary["StreamId"] = stream.stream_id
    summary["OpenShardCount"] = len(stream.open_shards)
    summary["ConsumerCount"] = len(stream.consumers)
    summary["MaxRecordSizeInKiB"] = stream.max_record_kib
    summary["RecordDistributionStrategy"] = stream.distribution
    if stream.mode == "ON_DEMAND":
        summary["WarmThroughput"] = warm_throughput_shape(stream)
    return {"StreamDescriptionSummary": summary}
