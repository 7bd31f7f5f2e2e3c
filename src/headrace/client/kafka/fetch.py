"""Fetching from one partition, the record batches left as they are: for those who decode them in their own way.

Of an answer with megabytes of batches nothing is copied but a few numbers: `records` looks at the bytes where they were
received, and is gone when the next answer arrives there.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import NamedTuple

from headrace.client.kafka.cluster import TopicInfo
from headrace.client.kafka.connection import Connection, Landing, Pending
from headrace.client.kafka.errors import ProtocolViolation
from headrace.client.kafka.offsets import Isolation
from headrace.kafka.codec.fields import NO_UUID
from headrace.kafka.codec.schema import is_flexible
from headrace.kafka.codec.wire import MalformedMessage, read_uvarint, skip_tagged_fields
from headrace.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

NEWEST_BY_NAME = 12  # from FetchRequest version 13 on topics go by id

_I16 = Struct(">h")
_I32 = Struct(">i")
_PARTITION = Struct(">ihqq")  # index, error code, high watermark, last stable offset
_ABORTED = Struct(">qq")  # producer id, first offset


class Fetched(NamedTuple):
    error_code: int  # of the request as a whole, or of the partition
    throttle_ms: int
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]  # (first offset, producer id) of each aborted transaction
    records: memoryview


@dataclass(frozen=True, slots=True)
class FetchWish:
    """What to fetch from where on."""

    topic: TopicInfo
    partition: int
    offset: int
    max_bytes: int
    wait_ms: int
    isolation: Isolation


def send_fetch(connection: Connection, wish: FetchWish, deadline: float) -> Pending:
    request = FetchRequest(
        max_wait_ms=wish.wait_ms,
        min_bytes=1,
        max_bytes=wish.max_bytes,
        isolation_level=wish.isolation,
        topics=[
            FetchTopic(
                topic=wish.topic.name,
                topic_id=wish.topic.topic_id,
                partitions=[
                    FetchPartition(
                        partition=wish.partition,
                        fetch_offset=wish.offset,
                        partition_max_bytes=wish.max_bytes,
                    )
                ],
            )
        ],
    )
    newest = None if wish.topic.topic_id != NO_UUID else NEWEST_BY_NAME
    return connection.send(request, deadline, version=connection.version_of(FetchRequest, newest))


def receive_fetch(connection: Connection, pending: Pending, deadline: float, landing: Landing) -> Fetched:
    body = connection.receive_bytes(pending, FetchResponse, deadline, landing)
    try:
        return parse_fetched(body, pending.version)
    except (MalformedMessage, error, IndexError):
        connection.close()
        raise ProtocolViolation(f"{connection.address} sent an answer to Fetch that can't be read") from None


def parse_fetched(body: memoryview, version: int) -> Fetched:
    """An answer about one partition at most; of several the first. `FetchResponse` has the fields of each version."""
    flexible = is_flexible(FetchResponse, version)
    (throttle_ms,) = _I32.unpack_from(body)
    pos = 4
    if version >= 7:
        (code,) = _I16.unpack_from(body, pos)
        pos += 6  # and the session id
        if code:
            return Fetched(code, throttle_ms, -1, -1, [], body[:0])
    topics, pos = _length(body, pos, flexible)
    if topics < 1:
        raise MalformedMessage("an answer about nothing")
    if version >= 13:
        pos += 16
    else:
        pos = _skip_name(body, pos, flexible)
    partitions, pos = _length(body, pos, flexible)
    if partitions < 1:
        raise MalformedMessage("an answer about nothing")
    _, code, high_watermark, last_stable_offset = _PARTITION.unpack_from(body, pos)
    pos += _PARTITION.size + (8 if version >= 5 else 0)  # the log's start offset
    count, pos = _length(body, pos, flexible)
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(body, pos)
        aborted.append((first_offset, producer_id))
        pos += _ABORTED.size
        if flexible:
            pos = skip_tagged_fields(body, pos, len(body))
    if version >= 11:
        pos += 4  # a replica to prefer, which is offered only to those who say where they are
    size, pos = _length(body, pos, flexible)
    if size > len(body) - pos:
        raise MalformedMessage("records beyond the end of the message")
    return Fetched(code, throttle_ms, high_watermark, last_stable_offset, aborted, body[pos : pos + max(size, 0)])


def _length(body: memoryview, pos: int, flexible: bool) -> tuple[int, int]:
    """Of an array or of bytes; -1 for null."""
    if flexible:
        length, pos = read_uvarint(body, pos)
        return length - 1, pos
    (length,) = _I32.unpack_from(body, pos)
    return length, pos + 4


def _skip_name(body: memoryview, pos: int, flexible: bool) -> int:
    if flexible:
        length, pos = read_uvarint(body, pos)
        return pos + max(length - 1, 0)
    (length,) = _I16.unpack_from(body, pos)
    return pos + 2 + max(int(length), 0)
