"""SplitShard, MergeShards and UpdateShardCount. When they have answered it is done and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.streams.shard import parse_shard_id, shard_id
from headrace.kinesis.errors import invalid_argument, shard_not_found
from headrace.kinesis.service import Call

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream


async def split_shard(call: Call) -> None:
    stream, (shard,) = _named(call, "ShardToSplit")
    await call.service.streams.split(stream, shard, int(call.given["NewStartingHashKey"]))


async def merge_shards(call: Call) -> None:
    stream, (shard, adjacent) = _named(call, "ShardToMerge", "AdjacentShardToMerge")
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


def _named(call: Call, *places: str) -> tuple[Stream, list[Shard]]:
    """The stream and the shards that are named there. A name that no shard can have is refused before the stream is looked
    for, as AWS does. Raises KinesisError."""
    ids = [call.given[place] for place in places]
    for name in ids:
        if parse_shard_id(name) is None:
            raise shard_not_found(name, call.given.get("StreamName") or call.stream().name, call.account)
    stream = call.stream()
    found = []
    for name in ids:
        shard, index = stream.shard(name), parse_shard_id(name)
        if shard is None:
            raise shard_not_found(name if index is None else shard_id(index), stream.name, stream.account)
        found.append(shard)
    return stream, found
