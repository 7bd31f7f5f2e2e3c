"""Events into datagrams, as full as they may be: the sending side of one stream.

What is sent of a stream is one sequence of datagrams, of which each says where the one before ended. Events that are left out
(`leave_out`) look like a loss to whoever receives, as they should: they are to be read from the log.

Bound: one datagram is gathered at a time.
"""

from __future__ import annotations

from headrace.multicast.feed.datagrams import HEADER_SIZE, LARGEST, MAX_SPAN, TAG_SIZE, Flags, Kind, encode
from headrace.multicast.feed.twin import datagram_of_one
from headrace.record import encode_records
from headrace.record.event import Header

LEAST_MTU = 256
DEFAULT_MTU = 1400


class TooLarge(ValueError):
    """The event does not fit into a datagram."""


class Packer:
    """`start` is the sequence before which nothing of this stream is sent. A feed that is logged names its `topic`."""

    def __init__(
        self,
        feed: int,
        partition: int,
        session: int,
        *,
        start: int = 0,
        mtu: int = DEFAULT_MTU,
        topic: str | None = None,
        secret: bytes | None = None,
    ) -> None:
        if not LEAST_MTU <= mtu <= LARGEST:
            raise ValueError(f"a datagram has {LEAST_MTU} to {LARGEST} bytes, not {mtu}")
        self.mtu = mtu
        self.room = mtu - HEADER_SIZE - (TAG_SIZE if secret is not None else 0)  # for records
        self.previous = start
        self.count = 0  # of the events that are gathered
        self._feed = feed
        self._partition = partition
        self._session = session
        self._flags = int(Flags.LOGGED) if topic is not None else 0
        self._announcement = b"" if topic is None else topic.encode()
        self._secret = secret
        self._parts: list[bytes] = []
        self._size = 0
        self._first = 0
        self._last = 0
        self._timestamp_ms = 0

    def add(
        self, sequence: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> bytes | None:
        """Gathers an event, whose sequence is beyond that of all before. Returns the datagram of those before it, if it does
        not fit in there any more. Raises TooLarge, and then nothing has changed."""
        if self.count and sequence - self._first < MAX_SPAN:
            record = encode_records(((sequence - self._first, timestamp_ms - self._timestamp_ms, key, value, headers),))
            if self._size + len(record) <= self.room:
                self._parts.append(record)
                self._size += len(record)
                self._last = sequence
                self.count += 1
                return None
        record = encode_records(((0, 0, key, value, headers),))
        if len(record) > self.room:
            raise self._too_large(record)
        full = self.flush()
        self._parts = [record]
        self._size = len(record)
        self._first = self._last = sequence
        self._timestamp_ms = timestamp_ms
        self.count = 1
        return full

    def alone(
        self, sequence: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> bytes:
        """A datagram of one event, at once: the short way of `add` and `flush`. Nothing may be gathered. Raises TooLarge."""
        assert not self.count
        if headers or self._secret is not None:
            self.add(sequence, timestamp_ms, key, value, headers)
            gathered = self.flush()
            assert gathered is not None
            return gathered
        datagram = datagram_of_one(
            self._flags,
            self._feed,
            self._partition,
            self._session,
            self.previous,
            sequence,
            timestamp_ms,
            key,
            value,
            self.room,
        )
        if datagram is None:
            raise self._too_large(encode_records(((0, 0, key, value, ()),)))
        self.previous = sequence + 1
        return datagram

    def flush(self) -> bytes | None:
        """The datagram of what is gathered, if anything is."""
        if not self.count:
            return None
        span = self._last - self._first + 1
        datagram = encode(
            Kind.EVENTS, self._flags, self.count, span, self._feed, self._partition, self._session,
            self.previous, self._first, self._timestamp_ms, b"".join(self._parts), self._secret,
        )  # fmt: skip
        self.previous = self._last + 1
        self.count = 0
        self._parts = []
        self._size = 0
        return datagram

    def leave_out(self, sequence: int) -> None:
        """An event that is not sent. Nothing may be gathered; a heartbeat should follow."""
        assert not self.count
        self.previous = sequence + 1

    def rewind(self, to: int) -> None:
        """Goes on from an earlier sequence; what is gathered is forgotten."""
        self.previous = to
        self.count = 0
        self._parts = []
        self._size = 0

    def heartbeat(self, now_ms: int, *, end: bool = False) -> bytes:
        """Says how far the stream has come. Nothing may be gathered."""
        assert not self.count
        flags = self._flags | (int(Flags.END) if end else 0)
        return encode(
            Kind.HEARTBEAT, flags, 0, 0, self._feed, self._partition, self._session,
            self.previous, self.previous, now_ms, self._announcement, self._secret,
        )  # fmt: skip

    def _too_large(self, record: bytes) -> TooLarge:
        return TooLarge(f"an event of {len(record)} bytes does not fit into a datagram, which has room for {self.room}")
