"""CreateStream, DeleteStream, ListStreams.

A stream is there, ACTIVE, when CreateStream has answered, and gone when DeleteStream has. A page of ListStreams has ten names
unless asked otherwise, 10,000 at most; it is put together in short turns, so that others have theirs in between.
"""

from __future__ import annotations

from typing import Any

from headrace.broker.streams.definition import Mode
from headrace.kinesis.codec.encoding import Moment
from headrace.kinesis.control.tags import check_tags
from headrace.kinesis.errors import invalid_argument
from headrace.kinesis.pages import next_token, page_of, read_token
from headrace.kinesis.service import Call
from headrace.short_turns import ShortTurns

DEFAULT_PAGE = 10
DEFAULT_RECORD_KIB = 1024


async def create_stream(call: Call) -> None:
    given = call.given
    tags = given.get("Tags", {})
    check_tags(tags)
    mode = given.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED")
    count = given.get("ShardCount")
    if mode == "ON_DEMAND" and count is not None:
        raise invalid_argument("ShardCount must not be provided when creating a stream in ON_DEMAND mode.")
    if mode == "PROVISIONED" and count is None:
        raise invalid_argument("ShardCount must be provided when creating a stream in PROVISIONED mode.")
    if mode == "PROVISIONED" and given.get("WarmThroughputMiBps"):
        raise invalid_argument("WarmThroughputMiBps can only be provided for a stream in ON_DEMAND mode.")
    await call.service.streams.create(
        call.account,
        call.region,
        given["StreamName"],
        shards=count or 1,
        mode=Mode(mode),
        tags=tags,
        warm_mibps=given.get("WarmThroughputMiBps"),
        max_record_kib=given.get("MaxRecordSizeInKiB", DEFAULT_RECORD_KIB),
        distribution=given.get("RecordDistributionStrategy", "USER_PARTITION_KEY"),
    )


async def delete_stream(call: Call) -> None:
    await call.service.streams.delete(call.stream(), with_consumers=call.given.get("EnforceConsumerDeletion", False))


async def list_streams(call: Call) -> dict[str, Any]:
    given = call.given
    limit = given.get("Limit", DEFAULT_PAGE)
    after = given.get("ExclusiveStartStreamName", "")
    if "NextToken" in given:
        after = read_token(call, given["NextToken"])["after"]
    streams = call.service.streams
    page, more = page_of(streams.names(call.account, call.region, after, limit + 1), limit)
    summaries = []
    turns = ShortTurns()
    for name in page:
        if turns.over:
            await turns.rest()
        stream = streams.find(call.account, call.region, name)
        if stream is not None:
            summaries.append(
                {
                    "StreamName": stream.name,
                    "StreamARN": stream.arn,
                    "StreamStatus": str(stream.status),
                    "StreamModeDetails": {"StreamMode": str(stream.mode)},
                    "StreamCreationTimestamp": Moment(stream.created_ms),
                }
            )
    answer: dict[str, Any] = {"StreamNames": list(page), "HasMoreStreams": more, "StreamSummaries": summaries}
    if more:
        answer["NextToken"] = next_token(call, after=page[-1])
    return answer
