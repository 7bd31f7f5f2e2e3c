"""How streams, shards and consumers look in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.kinesis.codec.encoding import Moment

if TYPE_CHECKING:
    from headrace.broker.streams.consumers import Consumer
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream


def shard_shape(stream: Stream, shard: Shard) -> dict[str, Any]:
    sequence_numbers = {"StartingSequenceNumber": shard.starting_sequence_number}
    if (ending := shard.ending_sequence_number) is not None:
        sequence_numbers["EndingSequenceNumber"] = ending
    shape: dict[str, Any] = {"ShardId": shard.id}
    if shard.parent is not None:
        shape["ParentShardId"] = stream.shards[shard.parent].id
    if shard.adjacent is not None:
        shape["AdjacentParentShardId"] = stream.shards[shard.adjacent].id
    shape["HashKeyRange"] = {"StartingHashKey": str(shard.first_hash), "EndingHashKey": str(shard.last_hash)}
    shape["SequenceNumberRange"] = sequence_numbers
    return shape


def stream_shape(stream: Stream) -> dict[str, Any]:
    """What DescribeStream and DescribeStreamSummary both say."""
    shape = {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": str(stream.status),
        "StreamModeDetails": {"StreamMode": str(stream.mode)},
        "RetentionPeriodHours": stream.retention_hours,
        "StreamCreationTimestamp": Moment(stream.created_ms),
        "EnhancedMonitoring": [{"ShardLevelMetrics": list(stream.monitoring)}],
        "EncryptionType": str(stream.encryption_type),
    }
    if stream.key_id is not None:
        shape["KeyId"] = stream.key_id
    return shape


def consumer_shape(consumer: Consumer) -> dict[str, Any]:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": consumer.arn,
        "ConsumerStatus": consumer.status,
        "ConsumerCreationTimestamp": Moment(consumer.created_ms),
    }


def warm_throughput_shape(stream: Stream) -> dict[str, Any]:
    mibps = stream.warm_mibps or 0
    return {"TargetMiBps": mibps, "CurrentMiBps": mibps}
