"""Consumers with enhanced fan-out: registering, describing, listing and deregistering. A page has 100 of them unless asked
otherwise."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from headrace.broker.streams.consumers import Consumer
from headrace.kinesis.control.tags import check_tags
from headrace.kinesis.errors import consumer_not_found, invalid_argument
from headrace.kinesis.lookup import find_consumer
from headrace.kinesis.pages import next_token, page_of, read_token
from headrace.kinesis.service import Call
from headrace.kinesis.shapes import consumer_shape

DEFAULT_PAGE = 100


async def register_stream_consumer(call: Call) -> dict[str, Any]:
    tags = call.given.get("Tags", {})
    check_tags(tags)
    consumer = await call.service.streams.register_consumer(call.stream(), call.given["ConsumerName"], tags)
    return {"Consumer": consumer_shape(consumer)}


async def deregister_stream_consumer(call: Call) -> None:
    await call.service.streams.deregister_consumer(_asked(call))


def describe_stream_consumer(call: Call) -> dict[str, Any]:
    consumer = _asked(call)
    return {"ConsumerDescription": {**consumer_shape(consumer), "StreamARN": consumer.stream.arn}}


def list_stream_consumers(call: Call) -> dict[str, Any]:
    given = call.given
    stream = call.stream()
    created = given.get("StreamCreationTimestamp")
    if created is not None and abs(created * 1000 - stream.created_ms) >= 1000:
        raise invalid_argument(f"Stream {stream.name} was not created at the StreamCreationTimestamp that was given.")
    after = ""
    if "NextToken" in given:
        place = read_token(call, given["NextToken"])
        if place["stream"] != stream.stream_id:
            raise invalid_argument("NextToken is invalid.")
        after = place["after"]
    names = sorted(stream.consumers)
    page, more = page_of(names[bisect_right(names, after) :], given.get("MaxResults", DEFAULT_PAGE))
    answer: dict[str, Any] = {"Consumers": [consumer_shape(stream.consumers[name]) for name in page]}
    if more:
        answer["NextToken"] = next_token(call, stream=stream.stream_id, after=page[-1])
    return answer


def _asked(call: Call) -> Consumer:
    """By ConsumerARN, or by StreamARN and ConsumerName. Raises KinesisError."""
    given = call.given
    arn, name = given.get("ConsumerARN"), given.get("ConsumerName")
    if arn is not None:
        consumer = find_consumer(call, arn)
        if name is not None and name != consumer.name:
            raise invalid_argument(f"ConsumerName {name} and ConsumerARN {arn} do not name the same consumer.")
        return consumer
    if name is None or given.get("StreamARN") is None:
        raise invalid_argument("Either ConsumerARN or both StreamARN and ConsumerName must be provided.")
    stream = call.stream()
    found = stream.consumers.get(name)
    if found is None:
        raise consumer_not_found(name, stream.account)
    return found
