"""A whole stream as one feed, through resharding.

A shard that was split or merged is closed: it is read to its end, and only then do its children begin, so records of a key come
in the order in which they were put, whatever happened to the shards in between. Children are found by listing the shards again
whenever one has ended. Shards that are open side by side are asked in turn; one that had nothing new rests for a moment, within
the five calls a second that AWS allows for a shard.

An iterator that expired, because this process was stopped for a while, is replaced by one behind the last record. Memory is one
answer of GetRecords (10 MiB of data at most) and a few hundred bytes for each shard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.client.kinesis.api import Kinesis
from headrace.client.kinesis.errors import NotFound, Refused
from headrace.client.kinesis.start import Start
from headrace.client.kinesis.values import Record, Shard

_REST_S = 0.22
_EXPIRED = "ExpiredIteratorException"


@dataclass(slots=True)
class _Place:
    """How far one shard has been read."""

    shard: Shard
    start: Start
    iterator: str | None = None
    due: float = field(default_factory=time.monotonic)
    at_end: bool = False  # of an open shard: nothing newer when it was last asked


class StreamReader:
    """`only`: these shards, each to its end, without their children."""

    def __init__(self, kinesis: Kinesis, stream: str, start: Start, *, only: Sequence[str] | None = None) -> None:
        self._kinesis = kinesis
        self._stream = stream
        self._start = start
        self._only = only
        self._began_ms = time.time_ns() // 1_000_000
        self._done: set[str] = set()
        self._waiting: dict[str, Shard] = {}
        self._reading: dict[str, _Place] = {}
        self._begin()

    @property
    def ended(self) -> bool:
        """Every shard was closed and has been read to its end: of those in `only`, or of a stream that is going away."""
        return not self._reading and not self._waiting

    def until_end(self) -> Iterator[list[Record]]:
        """What is there now."""
        while any(not place.at_end for place in self._reading.values()):
            records = self._poll([place for place in self._reading.values() if not place.at_end])
            if records:
                yield records

    def forever(self) -> Iterator[list[Record]]:
        """What is there and what comes."""
        while not self.ended:
            records = self._poll(list(self._reading.values()))
            if records:
                yield records

    def _begin(self) -> None:
        shards = self._kinesis.shards(self._stream)
        if self._only is not None:
            shards = [shard for shard in shards if shard.shard_id in self._only]
        elif self._start.kind == "LATEST":
            self._done.update(shard.shard_id for shard in shards if not shard.open)
            shards = [shard for shard in shards if shard.open]
        self._waiting = {shard.shard_id: shard for shard in shards}
        self._promote(self._start)
        if self._start.kind == "LATEST":  # what is put from now on, and not from when a shard's turn comes
            for place in self._reading.values():
                place.iterator = self._iterator(place)

    def _promote(self, start: Start) -> None:
        """Shards whose parents are all read, or gone, begin."""
        for shard_id, shard in list(self._waiting.items()):
            if not any(parent in self._waiting or parent in self._reading for parent in shard.parents):
                self._reading[shard_id] = _Place(shard, start)
        for shard_id in self._reading:
            self._waiting.pop(shard_id, None)

    def _poll(self, places: list[_Place]) -> list[Record]:
        place = min(places, key=lambda one: one.due)
        wait_s = place.due - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        try:
            if place.iterator is None:
                place.iterator = self._iterator(place)
            page = self._kinesis.records(place.shard.shard_id, place.iterator)
        except NotFound:
            if place.shard.open:
                raise
            self._end(place)  # retention has taken the shard since it was listed
            return []
        except Refused as refused:
            if refused.code != _EXPIRED:
                raise
            place.iterator = None
            if place.start.kind == "LATEST":  # nothing was there to be behind
                place.start = Start.at_time(self._began_ms)
            return []
        if page.records:
            place.start = Start.after(page.records[-1].sequence_number)
        place.iterator = page.next_iterator
        caught_up = page.behind_ms == 0 or (page.behind_ms is None and not page.records)
        if page.next_iterator is None or (caught_up and not page.records and not place.shard.open):
            self._end(place)
            return page.records
        place.at_end = caught_up and place.shard.open
        place.due = time.monotonic() + (_REST_S if caught_up or not page.records else 0)
        return page.records

    def _end(self, place: _Place) -> None:
        self._done.add(place.shard.shard_id)
        del self._reading[place.shard.shard_id]
        if self._only is None:
            for shard in self._kinesis.shards(self._stream):
                if shard.shard_id not in self._done and shard.shard_id not in self._reading:
                    self._waiting[shard.shard_id] = shard
        # A child holds nothing older than its parents' last record, so from its beginning is from the right place, but for a
        # start at a time that is later than that.
        self._promote(self._start if self._start.timestamp_ms is not None else Start.trim_horizon())

    def _iterator(self, place: _Place) -> str:
        return self._kinesis.iterator(self._stream, place.shard.shard_id, place.start)
