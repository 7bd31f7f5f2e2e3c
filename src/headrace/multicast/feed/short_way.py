"""The short way of nearly all datagrams of a feed that is not packed: one event without headers, sent, and taken by a stream
that expects it. What is anything else goes the long way, through `datagrams` and `ordering`, and comes to the same.

There is a compiled twin, `headrace._multicast`; `twin` picks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.multicast.feed.datagrams import (
    BODY,
    COVERED,
    HEADER,
    HEADER_SIZE,
    MAX_SEQUENCE,
    START,
    BadDatagram,
    RawRecord,
    events_of,
)
from headrace.record import crc32c, encode_records

if TYPE_CHECKING:
    from headrace.multicast.feed.ordering import Stream

T = TypeVar("T")

_unpack = HEADER.unpack_from


def datagram_of_one(
    flags: int,
    feed: int,
    partition: int,
    session: int,
    previous: int,
    sequence: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    room: int,
) -> bytes | None:
    """The datagram of one event without headers; None if its record is larger than `room`."""
    record = encode_records(((0, 0, key, value, ()),))
    if len(record) > room:
        return None
    body = BODY.pack(0, flags, 1, 1, feed, partition, session, previous, sequence, timestamp_ms) + record
    return START + crc32c(body).to_bytes(4, "big") + body


def expected_event(data: memoryview, streams: Mapping[tuple[int, int], Stream]) -> tuple[Stream, RawRecord] | None:
    """The stream and the event of a datagram of one event, if it is sound and the very one that its stream expects."""
    if len(data) <= HEADER_SIZE:
        return None
    start, checksum, kind, flags, count, span, feed, partition, session, previous, first, timestamp_ms = _unpack(data)
    stream = streams.get((feed, partition))
    if (
        stream is None or session != stream.session or previous != stream.expected or previous > first or first == MAX_SEQUENCE
        or kind or flags > 1 or count != 1 or span != 1 or start != START or crc32c(data[COVERED:]) != checksum
    ):  # fmt: skip
        return None
    try:
        (record,) = events_of(data[HEADER_SIZE:], 1, first, 1, timestamp_ms)
    except BadDatagram:
        return None
    if record[4] or record[1] != timestamp_ms:
        return None
    return stream, record


def make(kind: type[T], *values: object) -> T:
    """A value of a frozen class, of all its fields in their order. Its own way, field by field, is long."""
    if len(values) != len(kind.__slots__):  # type: ignore[attr-defined]
        raise TypeError(f"{kind.__name__} has {len(kind.__slots__)} fields")  # type: ignore[attr-defined]
    return kind(*values)
