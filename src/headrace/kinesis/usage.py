"""How much went into and out of each stream, minute by minute: what CloudWatch shows of Kinesis.

Counted once for each request, not for each record. Bounds: the last `KEPT_MINUTES` that had traffic, of the `MAX_STREAMS` that
had it last. It is in memory alone: a restart begins anew.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream
    from headrace.clock import Clock

KEPT_MINUTES = 180
MAX_STREAMS = 4096
MINUTE_MS = 60_000

Key = tuple[str, str, str]  # account, region, name


@dataclass(slots=True)
class Samples:
    """Numbers of one kind in one minute, each of one request."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        if not self.count or value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        self.count += 1
        self.total += value

    def merge(self, other: Samples) -> None:
        if not other.count:
            return
        self.least = min(self.least, other.least) if self.count else other.least
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total


class Minute:
    __slots__ = ("began_ms", "bytes_in", "bytes_out", "records_in", "records_out")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.records_in = Samples()
        self.bytes_in = Samples()
        self.records_out = Samples()
        self.bytes_out = Samples()


class Usage:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: OrderedDict[Key, deque[Minute]] = OrderedDict()

    def came(self, stream: Stream, records: int, size_bytes: int) -> None:
        """A request put so many records, of so many bytes of data and partition keys."""
        minute = self._now(stream)
        minute.records_in.add(records)
        minute.bytes_in.add(size_bytes)

    def went(self, stream: Stream, records: int, size_bytes: int) -> None:
        """A request got so many."""
        minute = self._now(stream)
        minute.records_out.add(records)
        minute.bytes_out.add(size_bytes)

    def minutes(self, account: str, region: str, name: str) -> list[Minute]:
        """Those that had traffic, the oldest first."""
        return list(self._streams.get((account, region, name), ()))

    def _now(self, stream: Stream) -> Minute:
        now_ms = self._clock.now_ms()
        key = (stream.account, stream.region, stream.name)
        minutes = self._streams.get(key)
        if minutes is None:
            if len(self._streams) >= MAX_STREAMS:
                self._streams.popitem(last=False)
            minutes = self._streams[key] = deque(maxlen=KEPT_MINUTES)
        elif minutes[-1].began_ms + MINUTE_MS > now_ms:
            return minutes[-1]
        else:
            self._streams.move_to_end(key)
        minutes.append(Minute(now_ms - now_ms % MINUTE_MS))
        return minutes[-1]
