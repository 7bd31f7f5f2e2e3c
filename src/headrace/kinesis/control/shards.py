"""ListShards: shards of a stream by a filter, in pages of 1000 unless asked otherwise (10,000 at most).

The token remembers the stream and the filter. AWS refuses a stream's name beside it; here one of the same stream is let pass,
for programs that page so are met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.streams.shard import parse_shard_id
from headrace.broker.streams.shard_filter import FilterType, filtered, shown_shards, trim_horizon_ms
from headrace.kinesis.errors import KinesisError, invalid_argument, stream_not_found
from headrace.kinesis.pages import next_token, page_of, read_token
from headrace.kinesis.service import Call
from headrace.kinesis.shapes import shard_shape

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream

DEFAULT_PAGE = 1000
EVERYTHING = "FROM_TRIM_HORIZON"
_NAMES = ("StreamName", "StreamARN", "StreamId")
_NOT_WITH_TOKEN = ("StreamCreationTimestamp", "ExclusiveStartShardId", "ShardFilter")

Filter = tuple[str, int, int]  # its type, the index of a shard, a time in ms


def list_shards(call: Call) -> dict[str, Any]:
    given = call.given
    stream, after, wanted = _continued(call) if "NextToken" in given else _begun(call)
    kind, behind, time_ms = wanted
    now_ms = call.broker.clock.now_ms()
    horizon_ms = trim_horizon_ms(stream, now_ms)
    shards = filtered(shown_shards(stream, now_ms), FilterType(kind), horizon_ms, after=behind, time_ms=time_ms)
    page, more = page_of([shard for shard in shards if shard.index > after], given.get("MaxResults", DEFAULT_PAGE))
    answer: dict[str, Any] = {"Shards": [shard_shape(stream, shard) for shard in page]}
    if more:
        answer["NextToken"] = next_token(
            call,
            stream=[stream.account, stream.region, stream.name, stream.stream_id],
            after=page[-1].index,
            filter=wanted,
        )
    return answer


def _begun(call: Call) -> tuple[Stream, int, Filter]:
    given = call.given
    if not any(name in given for name in _NAMES):
        raise invalid_argument("Either NextToken or StreamName should be provided.")
    stream = call.stream()
    created = given.get("StreamCreationTimestamp")
    if created is not None and abs(created * 1000 - stream.created_ms) >= 1000:
        raise stream_not_found(stream.name, stream.account)
    after = -1
    if "ExclusiveStartShardId" in given:
        index = parse_shard_id(given["ExclusiveStartShardId"])
        after = -1 if index is None else index
    return stream, after, _filter(given.get("ShardFilter"))


def _filter(given: dict[str, Any] | None) -> Filter:
    if given is None:
        return EVERYTHING, -1, 0
    kind = given["Type"]
    shard_id, at = given.get("ShardId"), given.get("Timestamp")
    if kind == "AFTER_SHARD_ID":
        index = None if shard_id is None else parse_shard_id(shard_id)
        if index is None:
            raise invalid_argument("ShardId must be provided in ShardFilter when its Type is AFTER_SHARD_ID.")
        return kind, index, 0
    if kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP"):
        if at is None:
            raise invalid_argument(f"Timestamp must be provided in ShardFilter when its Type is {kind}.")
        return kind, -1, int(at * 1000)
    return kind, -1, 0


def _continued(call: Call) -> tuple[Stream, int, Filter]:
    for name in _NOT_WITH_TOKEN:
        if name in call.given:
            raise _not_together(name)
    named = next((name for name in _NAMES if name in call.given), None)
    try:
        place = read_token(call, call.given["NextToken"])
    except KinesisError as error:
        raise error if named is None else _not_together(named) from None
    account, region, name, stream_id = place["stream"]
    stream = call.service.streams.find(account, region, name)
    if stream is None or stream.stream_id != stream_id:
        raise stream_not_found(name, account)
    if named is not None and call.stream() is not stream:
        raise _not_together(named)
    kind, behind, time_ms = place["filter"]
    return stream, place["after"], (kind, behind, time_ms)


def _not_together(name: str) -> KinesisError:
    return invalid_argument(f"NextToken and {name} cannot be provided together.")
