"""Which stream or consumer a request means: by name, ARN or id, in the account and region of whoever asks.

A name is looked up in the caller's own account and region. An ARN may name another account's stream: then a policy of that
stream must allow it (`policy`), otherwise AccessDeniedException. An ARN of another region names nothing here. Several that are
given must mean the same stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.broker.streams.names import parse_arn
from headrace.kinesis.errors import (
    RESOURCE_NOT_FOUND,
    KinesisError,
    consumer_not_found,
    invalid_argument,
    stream_not_found,
)
from headrace.kinesis.policy import check_allowed

if TYPE_CHECKING:
    from headrace.broker.streams.consumers import Consumer
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.service import RawCall


def find_stream(call: RawCall, given: Mapping[str, Any]) -> Stream:
    """Raises KinesisError."""
    name, arn, stream_id = given.get("StreamName"), given.get("StreamARN"), given.get("StreamId")
    found: Stream | None = None
    if arn is not None:
        found = stream_of_arn(call, arn)
        if name is not None and name != found.name:
            raise invalid_argument(f"StreamName {name} and StreamARN {arn} do not name the same stream.")
    elif name is not None:
        found = call.service.streams.find(call.account, call.region, name)
        if found is None:
            raise stream_not_found(name, call.account)
    if stream_id is not None:
        by_id = call.service.streams.find_id(call.account, call.region, stream_id)
        if by_id is None:
            raise stream_not_found(stream_id, call.account)
        if found is not None and found is not by_id:
            raise invalid_argument(f"StreamId {stream_id} does not belong to the stream {found.name}.")
        found = by_id
    if found is None:
        raise invalid_argument("Either StreamName or StreamARN must be provided.")
    return found


def stream_of_arn(call: RawCall, arn: str) -> Stream:
    """Raises KinesisError."""
    parts = parse_arn(arn)
    if parts is None or parts.consumer is not None:
        raise invalid_argument(f"{arn} is not the ARN of a stream.")
    if parts.region != call.region:
        raise stream_not_found(parts.stream, parts.account)
    found = call.service.streams.find(parts.account, parts.region, parts.stream)
    if found is None:
        raise stream_not_found(parts.stream, parts.account)
    if parts.account != call.account:
        check_allowed(call, found.policy, arn)
    return found


def find_consumer(call: RawCall, arn: str) -> Consumer:
    """Raises KinesisError."""
    parts = parse_arn(arn)
    if parts is None or parts.consumer is None:
        raise consumer_not_found(arn, call.account)
    stream = None
    if parts.region == call.region:
        stream = call.service.streams.find(parts.account, parts.region, parts.stream)
    found = None if stream is None else stream.consumers.get(parts.consumer)
    if found is None or parts.created_s not in (None, found.created_ms // 1000):
        raise consumer_not_found(arn, parts.account)
    if parts.account != call.account:
        check_allowed(call, found.policy, arn)
    return found


def find_resource(call: RawCall, given: Mapping[str, Any]) -> Stream | Consumer:
    """What ResourceARN names, for the operations on tags and policies. Raises KinesisError."""
    arn: str = given["ResourceARN"]
    parts = parse_arn(arn)
    if parts is None:
        raise KinesisError(RESOURCE_NOT_FOUND, f"Resource {arn} not found.")
    if parts.consumer is not None:
        return find_consumer(call, arn)
    try:
        return stream_of_arn(call, arn)
    except KinesisError as error:
        if error.code != RESOURCE_NOT_FOUND:
            raise
        raise stream_not_found(arn, parts.account) from None  # here AWS names the ARN
