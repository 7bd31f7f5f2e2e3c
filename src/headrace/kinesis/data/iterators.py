"""GetShardIterator: a place in a shard, to read from with GetRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.streams.names import parse_arn
from headrace.kinesis.data.positions import find_shard, shard_index, shown_id, starting_offset
from headrace.kinesis.data.shared import shared_by
from headrace.kinesis.data.throughput import rate_exceeded
from headrace.kinesis.data.tokens import Iterator
from headrace.kinesis.errors import RESOURCE_NOT_FOUND, KinesisError, dry_run, shard_does_not_exist

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.service import Call


async def get_shard_iterator(call: Call) -> dict[str, Any]:
    given = call.given
    shared = shared_by(call.service)
    await shared.tokens.ready()
    stream = _stream(call)
    shard = find_shard(stream, given["ShardId"], call.account)
    topic_id = stream.topic.topic_id
    if shared.enforcing and not shared.limits.admit_iterator(topic_id, shard.index):
        raise rate_exceeded(shard, stream, call.account)
    now_ms = shared.clock.now_ms()
    offset = await starting_offset(
        stream,
        shard,
        given["ShardIteratorType"],
        given.get("StartingSequenceNumber"),
        given.get("Timestamp"),
        now_ms=now_ms,
        account=call.account,
        operation="GetShardIterator",
    )
    if given.get("DryRun"):
        raise dry_run()
    named = parse_arn(given["StreamARN"]) if "StreamARN" in given else None  # it may be another account's
    account = call.account if named is None else named.account
    place = Iterator(account, call.region, stream.name, topic_id, shard.index, offset, now_ms)
    return {"ShardIterator": shared.tokens.write(place)}


def _stream(call: Call) -> Stream:
    """Of a stream that is not there AWS says that its shard is not."""
    try:
        return call.stream()
    except KinesisError as error:
        name = call.given.get("StreamName")
        if error.code != RESOURCE_NOT_FOUND or name is None:
            raise
        index = shard_index(call.given["ShardId"], name, call.account)
        raise shard_does_not_exist(shown_id(call.given["ShardId"], index), name, call.account) from None
