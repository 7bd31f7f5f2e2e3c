"""Whatever a socket receives, to the stream that it belongs to.

Datagrams of other feeds, of other formats, damaged and forged ones are counted and forgotten. A stream is made when its first
datagram comes. Bound: `MAX_STREAMS`; datagrams of further ones count as malformed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from headrace.multicast.feed.counts import Counts
from headrace.multicast.feed.datagrams import (
    DAMAGED,
    FORGED,
    MALFORMED,
    OTHER_FEED,
    STRANGE,
    BadDatagram,
    decode,
    feed_number,
)
from headrace.multicast.feed.ordering import Records, Stream
from headrace.multicast.feed.twin import expected_event

MAX_STREAMS = 4096
DEFAULT_WINDOW = 1024
DEFAULT_REORDER_S = 0.02


class Reception:
    def __init__(
        self,
        feeds: Iterable[str],
        *,
        secret: bytes | None = None,
        window: int = DEFAULT_WINDOW,
        reorder_s: float = DEFAULT_REORDER_S,
        ignored: Container[int] = (),
    ) -> None:
        """`ignored` are sessions that nothing is taken of."""
        self.counts = Counts()
        self.lacking: dict[Stream, None] = {}  # the streams that miss something
        self._feeds = {feed_number(name): name for name in feeds}
        self._secret = secret
        self._ignored = ignored
        self._window = window
        self._reorder_s = reorder_s
        self._streams: dict[tuple[int, int], Stream] = {}

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def stream(self, feed: str, partition: int, expected: int | None = None) -> Stream:
        """The stream of a partition; made, if there is none, to begin with `expected`. Raises BadDatagram at the bound."""
        key = (feed_number(feed), partition)
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= MAX_STREAMS:
                raise BadDatagram(MALFORMED)
            stream = Stream(feed, partition, self._window, self._reorder_s, self.counts, expected)
            self._streams[key] = stream
        return stream

    def take(self, data: memoryview, now: float) -> tuple[Stream, Records] | None:
        """The stream that a datagram belongs to, and what can be handed on because of it; None if it is of no use."""
        if self.lacking or self._secret is not None:
            return self._take(data, now)
        found = expected_event(data, self._streams)
        if found is None:
            return self._take(data, now)
        stream, record = found
        first = record[0]
        stream.expected = first + 1
        stream.furthest = first
        stream.end = None
        counts = self.counts
        counts.datagrams += 1
        counts.events += 1
        return stream, [record]

    def _take(self, data: memoryview, now: float) -> tuple[Stream, Records] | None:
        try:
            datagram = decode(data, self._secret, self._feeds)
            if datagram.session in self._ignored:
                self.counts.old += 1
                return None
            stream = self._streams.get((datagram.feed, datagram.partition))
            if stream is None:
                stream = self.stream(self._feeds[datagram.feed], datagram.partition)
            records = stream.take(datagram, now)
        except BadDatagram as bad:
            self._count(bad.reason)
            return None
        if self.lacking or not records:  # where something was handed on and nothing was missing, nothing is missing now
            if stream.lacking:
                self.lacking[stream] = None
            else:
                self.lacking.pop(stream, None)
        return stream, records

    def settled(self, stream: Stream) -> None:
        """To be called when something was given up or put in."""
        if not stream.lacking:
            self.lacking.pop(stream, None)

    def due_at(self) -> float | None:
        """When the first of the streams should wait no longer for what it misses; those being filled are not asked."""
        due = [stream.due_at() for stream in self.lacking if not stream.filling]
        return min((at for at in due if at is not None), default=None)

    def due(self, now: float) -> list[Stream]:
        """The streams that should wait no longer."""
        return [stream for stream in self.lacking if not stream.filling and (at := stream.due_at()) is not None and at <= now]

    def _count(self, reason: str) -> None:
        counts = self.counts
        if reason == STRANGE:
            counts.strange += 1
        elif reason == OTHER_FEED:
            counts.other_feed += 1
        elif reason == DAMAGED:
            counts.damaged += 1
        elif reason == FORGED:
            counts.forged += 1
        else:
            counts.malformed += 1
