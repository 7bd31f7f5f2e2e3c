"""Clicks of the shop over Kinesis: records put by visitor, and a reader of every shard.

The stream `demo.clicks` begins with two shards; one that is split or merged in the meantime is read to its end, and its
children after it, from their beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from headrace.cli.demo_feeds.background import Background, Pace
from headrace.client.kinesis.api import Entry, Kinesis
from headrace.client.kinesis.errors import NotFound
from headrace.client.kinesis.signing import Credentials
from headrace.client.kinesis.start import Start
from headrace.spark.pipelines.happening import Happening
from headrace.spark.runner.feeding import happenings

STREAM, SHARDS = "demo.clicks", 2
RATE = 10.0
_TURN_S = 0.25
_READ_EVERY = 4  # turns: a shard may be asked five times a second
_MOST = 100


class ClicksOverKinesis(Background):
    name = "clicks over Kinesis"
    protocol = "kinesis"

    def __init__(self, url: str, rate: float = RATE) -> None:
        super().__init__()
        self._url = url
        self._rate = rate
        self._clicks = _clicks()
        self._iterators: dict[str, str] = {}
        self._ended_shards: set[str] = set()

    def _work(self) -> None:
        with Kinesis(self._url, Credentials("demo", "demo")) as kinesis:
            self._ensure(kinesis)
            self._iterators.clear()
            self._follow(kinesis, Start.latest())
            pace, turn = Pace(self._rate, _MOST), 0
            while not self.ended.wait(_TURN_S):
                self._put(kinesis, pace.due())
                turn += 1
                if turn % _READ_EVERY == 0:
                    self._read(kinesis)

    def _ensure(self, kinesis: Kinesis) -> None:
        try:
            kinesis.stream(STREAM)
        except NotFound:
            kinesis.create_stream(STREAM, shards=SHARDS)
        kinesis.wait_until_active(STREAM)

    def _put(self, kinesis: Kinesis, number: int) -> None:
        entries = [Entry(json.dumps(one.value, ensure_ascii=False).encode(), one.key) for one in islice(self._clicks, number)]
        if entries:
            self.count("put", sum(1 for one in kinesis.put_records(STREAM, entries) if one.error is None))

    def _follow(self, kinesis: Kinesis, start: Start) -> None:
        for shard in kinesis.shards(STREAM):
            if shard.shard_id not in self._iterators and shard.shard_id not in self._ended_shards:
                self._iterators[shard.shard_id] = kinesis.iterator(STREAM, shard.shard_id, start)

    def _read(self, kinesis: Kinesis) -> None:
        for shard_id, iterator in list(self._iterators.items()):
            page = kinesis.records(shard_id, iterator)
            self.count("read", len(page.records))
            if page.next_iterator is None:
                del self._iterators[shard_id]
                self._ended_shards.add(shard_id)
                self._follow(kinesis, Start.trim_horizon())
            else:
                self._iterators[shard_id] = page.next_iterator


def _clicks() -> Iterator[Happening]:
    return (one for one in happenings("shop") if one.topic == "shop.clicks")
