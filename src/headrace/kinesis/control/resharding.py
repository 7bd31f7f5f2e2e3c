"""SplitShard, MergeShards and UpdateShardCount. When they have answered it is done and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.kinesis.errors import invalid_argument, shard_not_found
from headrace.kinesis.service import Call

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream


async def split_shard(call: Call) -> None:
    stream = call.stream()
    shard = _shard(call, stream, call.given["ShardToSplit"])
    await call.service.streams.split(stream, shard, int(call.given["NewStartingHashKey"]))


async def merge_shards(call: Call) -> None:
    stream = call.stream()
    shard = _shard(call, stream, call.given["ShardToMerge"])
    adjacent = _shard(call, stream, call.given["AdjacentShardToMerge"])
    if shard.last_hash + 1 != adjacent.first_hash and adjacent.last_hash + 1 != shard.first_hash:
        raise invalid_argument(adjacent.id)  # all that AWS says
    await call.service.streams.merge(stream, shard, adjacent)


async def update_shard_count(call: Call) -> dict[str, Any]:
    stream = call.stream()
    before, target = len(stream.open_shards), call.given["TargetShardCount"]
    await call.service.streams.update_count(stream, target)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": before,
        "TargetShardCount": target,
    }


def _shard(call: Call, stream: Stream, shard_id: str) -> Shard:
    shard = stream.shard(shard_id)
    if shard is None:
        raise shard_not_found(shard_id, stream.name, stream.account)
    return shard
