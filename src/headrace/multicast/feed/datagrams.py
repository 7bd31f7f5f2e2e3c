"""A datagram to bytes and back: 56 bytes of header, then records as a record batch has them, or the name of a topic.

     0  3  magic       "HRF"
     3  1  version     1
     4  4  checksum    CRC-32C of everything behind it
     8  1  kind        0 events, 1 heartbeat
     9  1  flags       1 logged, 2 authenticated, 4 end
    10  2  count       of events
    12  4  span        first + span is the sequence that follows the last event of this datagram
    16  4  feed        CRC-32C of the feed's name
    20  4  partition
    24  8  session     sequences belong together as long as it is the same
    32  8  previous    the sequence that follows the last event before this datagram
    40  8  first       the sequence of the first event here; of a heartbeat, `previous` again
    48  8  timestamp   milliseconds; what is in the records is relative to it
    56     payload     `count` records; of a heartbeat the name of the topic, if the feed is logged
           tag         16 bytes, if authenticated: HMAC-SHA256 of everything from byte 8 on to here, cut to its first half

All numbers are big-endian. A datagram may come from anybody: whatever could make nonsense further on is checked here.
"""

from __future__ import annotations

import hmac
from collections.abc import Container
from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple

from headrace.record import BatchError, crc32c, decode_records

MAGIC = b"HRF"
VERSION = 1
HEADER = Struct(">4sIBBHIIIQqqq")
HEADER_SIZE = HEADER.size
TAG_SIZE = 16
LARGEST = 65_507  # bytes that fit into a datagram of IPv4
MAX_SPAN = 0x7FFF_FFFF
MAX_SEQUENCE = 0x7FFF_FFFF_FFFF_FFFF

START = b"HRF\x01"
COVERED = 8  # by the checksum and by the tag: from here on
BODY = Struct(">BBHIIIQqqq")  # of the header, what the checksum covers

RawRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Kind(IntEnum):
    EVENTS = 0
    HEARTBEAT = 1


class Flags(IntFlag):
    LOGGED = 1  # the sequence is the offset in a topic, of which each committed record is an event of the feed
    AUTHENTICATED = 2
    END = 4  # nothing more comes in this session, until the sender is started again


_AUTHENTICATED = int(Flags.AUTHENTICATED)
_ALL_FLAGS = int(Flags.LOGGED | Flags.AUTHENTICATED | Flags.END)


class BadDatagram(Exception):
    """It is none of ours, or damaged, or forged. `reason` is one of the words below."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


STRANGE = "strange"  # another format, or another version
OTHER_FEED = "other feed"
DAMAGED = "damaged"  # the checksum is wrong
FORGED = "forged"  # there is no tag, or a wrong one
MALFORMED = "malformed"  # whoever made it has made a mistake


class Datagram(NamedTuple):
    """A datagram that came in, its records not looked at yet. `payload` is a view of the bytes that were given."""

    kind: int
    flags: int
    event_count: int
    span: int
    feed: int
    partition: int
    session: int
    previous: int
    first: int
    timestamp_ms: int
    payload: memoryview

    @property
    def next(self) -> int:
        """The sequence that follows the last event of this datagram."""
        return self.first + self.span

    @property
    def logged(self) -> bool:
        return bool(self.flags & Flags.LOGGED)

    @property
    def ends(self) -> bool:
        return bool(self.flags & Flags.END)

    def topic(self) -> str | None:
        """The topic that a heartbeat names. Raises BadDatagram."""
        if self.kind != Kind.HEARTBEAT or not self.payload:
            return None
        try:
            return str(self.payload, "utf-8")
        except UnicodeDecodeError:
            raise BadDatagram(MALFORMED) from None

    def records(self) -> list[RawRecord]:
        """The sequence, timestamp, key, value and headers of each event. Raises BadDatagram."""
        return events_of(self.payload, self.event_count, self.first, self.span, self.timestamp_ms)


def events_of(payload: memoryview, count: int, first: int, span: int, timestamp_ms: int) -> list[RawRecord]:
    """The events of a payload, which fill it and whose sequences grow from the first to the last one. Raises BadDatagram."""
    try:
        records = decode_records(payload, count, first, timestamp_ms)
    except BatchError:
        raise BadDatagram(MALFORMED) from None
    if records[0][0] != first or records[-1][0] != first + span - 1:
        raise BadDatagram(MALFORMED)
    if count > 2:
        last = first - 1
        for record in records:
            if record[0] <= last:
                raise BadDatagram(MALFORMED)
            last = record[0]
    return records


def feed_number(name: str) -> int:
    """The number that stands for a feed's name."""
    return crc32c(name.encode())


def encode(
    kind: int,
    flags: int,
    count: int,
    span: int,
    feed: int,
    partition: int,
    session: int,
    previous: int,
    first: int,
    timestamp_ms: int,
    payload: bytes,
    secret: bytes | None = None,
) -> bytes:
    """The bytes of a datagram; with a secret the tag is added, and the flag that says so."""
    if secret is not None:
        flags |= _AUTHENTICATED
    body = BODY.pack(kind, flags, count, span, feed, partition, session, previous, first, timestamp_ms) + payload
    if secret is not None:
        body += hmac.digest(secret, body, "sha256")[:TAG_SIZE]
    return START + crc32c(body).to_bytes(4, "big") + body


def decode(data: memoryview, secret: bytes | None = None, feeds: Container[int] | None = None) -> Datagram:
    """Raises BadDatagram. With a secret only what was authenticated with it is taken; with feeds, only what is one of those."""
    size = len(data)
    if size < HEADER_SIZE:
        raise BadDatagram(STRANGE)
    start, checksum, kind, flags, count, span, feed, partition, session, previous, first, timestamp_ms = HEADER.unpack_from(
        data
    )
    if start != START:
        raise BadDatagram(STRANGE)
    if feeds is not None and feed not in feeds:
        raise BadDatagram(OTHER_FEED)
    if crc32c(data[COVERED:]) != checksum:
        raise BadDatagram(DAMAGED)
    end = size
    if flags & _AUTHENTICATED:
        end -= TAG_SIZE
        if end < HEADER_SIZE:
            raise BadDatagram(MALFORMED)
    if secret is not None:
        if end == size:
            raise BadDatagram(FORGED)
        expected = hmac.digest(secret, data[COVERED:end], "sha256")[:TAG_SIZE]
        if not hmac.compare_digest(expected, data[end:]):
            raise BadDatagram(FORGED)
    if flags & ~_ALL_FLAGS or not 0 <= previous <= first or span > MAX_SPAN or first > MAX_SEQUENCE - span:
        raise BadDatagram(MALFORMED)
    if kind == 0:
        if not 0 < count <= span:
            raise BadDatagram(MALFORMED)
    elif kind != 1 or count or span or previous != first:
        raise BadDatagram(MALFORMED)
    return Datagram(
        kind, flags, count, span, feed, partition, session, previous, first, timestamp_ms, data[HEADER_SIZE:end]
    )  # fmt: skip
