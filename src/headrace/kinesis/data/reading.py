"""GetRecords: the next records of a shard, from where an iterator stands.

An iterator is good for `kinesis.iterator.expiry.ms`, for one stream of one account and region, and for one life of it. What
retention has taken meanwhile is passed over. At the end of a shard that was closed there is no next iterator; the shards that
came of it are named instead.

Bounds: `MAX_RECORDS` records and `MAX_BYTES` of data and partition keys in one answer, or one record if that is larger; in
memory that is about three times as much while the answer is made. Of answers that may have more than `LARGE_BYTES`, `MAKING`
are made at a time. And they get smaller while much of what was answered was not read by those who asked (`CROWDED`): fewer
records than could be are always right, and callers who read what they get are not slowed by those who don't.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.kinesis.codec.bodies import encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.data.pages import Page, millis_behind, read_records
from headrace.kinesis.data.shared import FORMS, Shared, shared_by
from headrace.kinesis.data.throughput import rate_exceeded
from headrace.kinesis.data.tokens import InvalidToken, Iterator
from headrace.kinesis.errors import EXPIRED_ITERATOR, KinesisError, dry_run, invalid_argument, shard_does_not_exist

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.service import RawCall

MIB = 1024 * 1024
MAX_RECORDS = 10_000
MAX_BYTES = 10 * MIB
LARGE_BYTES = MIB
CROWDED = ((128 * MIB, 64 * 1024), (32 * MIB, MIB))
"""Beyond so many bytes that wait for their readers an answer has so many at most."""


def get_records(call: RawCall) -> None:
    call.run(_get_records(call))


async def _get_records(call: RawCall) -> None:
    given = call.checked()
    shared = shared_by(call.service)
    if not shared.tokens.is_ready:
        await shared.tokens.ready()
    now_ms = shared.clock.now_ms()
    iterator = _iterator(call, shared, given["ShardIterator"], now_ms)
    stream, shard = _found(call, iterator, given)
    if given.get("DryRun"):
        raise dry_run()
    topic_id = stream.topic.topic_id
    if shared.enforcing and not shared.limits.admit_read(topic_id, shard.index):
        raise rate_exceeded(shard, stream, call.account)
    page = await _page(call, shared, stream, shard, iterator.offset, given.get("Limit", MAX_RECORDS))
    if shared.enforcing:
        shared.limits.read(topic_id, shard.index, page.size)
    now_ms = shared.clock.now_ms()
    members: dict[str, Any] = {"MillisBehindLatest": millis_behind(page, now_ms), "NextShardIterator": None}
    if page.drained:
        members["ChildShards"] = [child_shown(stream, child) for child in stream.children(shard)]
    else:
        following = Iterator(
            iterator.account, iterator.region, iterator.stream, topic_id, shard.index, page.next_offset, now_ms
        )
        members["NextShardIterator"] = shared.tokens.write(following)
    shared.went[stream.topic.name] += page.size
    call.service.usage.went(stream, page.count, page.size)
    call.service.sent_records(page.count)
    call.answer(page.body(tail(members, call.encoding), len(members)))


async def _page(call: RawCall, shared: Shared, stream: Stream, shard: Shard, offset: int, limit: int) -> Page:
    """Raises LogError."""
    form = FORMS[call.encoding]
    partition = stream.partition(shard)
    first = max(offset, partition.start_offset)
    if first >= partition.high_watermark or partition.readable_bytes(first, LARGE_BYTES + 1) <= LARGE_BYTES:
        return await read_records(stream, shard, offset, max_records=limit, max_bytes=MAX_BYTES, form=form)
    async with shared.making:
        unsent = call.service.unsent_bytes
        most = next((most for beyond, most in CROWDED if unsent > beyond), MAX_BYTES)
        return await read_records(stream, shard, offset, max_records=limit, max_bytes=most, form=form)


def _iterator(call: RawCall, shared: Shared, token: str, now_ms: int) -> Iterator:
    """Raises KinesisError."""
    try:
        iterator = shared.tokens.read(token)
    except InvalidToken:
        raise invalid_argument("Invalid ShardIterator.") from None
    if iterator.region != call.region:
        raise invalid_argument("Invalid ShardIterator.")
    if now_ms - iterator.time_ms > shared.iterator_expiry_ms:
        raise KinesisError(
            EXPIRED_ITERATOR,
            f"Iterator expired. The iterator was created at time {_java_date(iterator.time_ms)} while right now it is "
            f"{_java_date(now_ms)} which is further in the future than the tolerated delay of "
            f"{shared.iterator_expiry_ms} milliseconds.",
        )
    return iterator


def _found(call: RawCall, iterator: Iterator, given: dict[str, Any]) -> tuple[Stream, Shard]:
    """Raises KinesisError."""
    stream = call.service.streams.find(iterator.account, iterator.region, iterator.stream)
    if stream is None or stream.topic.topic_id != iterator.topic_id or iterator.shard >= len(stream.shards):
        raise shard_does_not_exist(f"shardId-{iterator.shard:012d}", iterator.stream, iterator.account)
    # another account's needs its ARN, and leave to read it
    if ("StreamARN" not in given and iterator.account != call.account) or (
        "StreamARN" in given and call.find_stream(given) is not stream
    ):
        raise invalid_argument("Invalid ShardIterator.")
    return stream, stream.shards[iterator.shard]


def child_shown(stream: Stream, child: Shard) -> dict[str, Any]:
    return {
        "ShardId": child.id,
        "ParentShards": [stream.shards[parent].id for parent in child.parents],
        "HashKeyRange": {"StartingHashKey": str(child.first_hash), "EndingHashKey": str(child.last_hash)},
    }


def tail(members: dict[str, Any], encoding: Encoding) -> bytes:
    """The members alone, as they stand behind others."""
    encoded = encode(members, encoding)
    return b"," + encoded[1:-1] if encoding is Encoding.JSON else encoded[1:]


def _java_date(time_ms: int) -> str:
    """As Java shows a date, in which AWS says it: Thu Jan 22 01:22:02 UTC 2015."""
    moment = time.gmtime(time_ms // 1000)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.tm_wday]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[moment.tm_mon - 1]
    clock = f"{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}"
    return f"{day} {month} {moment.tm_mday:02d} {clock} UTC {moment.tm_year}"
