"""Whatever happens in whatever order, each consumer gets every record of every shard once and in order, parents to their end
before their children."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kinesis.fanout.conftest import HORIZON, Peer, Stage

from headrace.broker.streams.consumers import Consumer
from headrace.broker.streams.stream import Stream
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.fanout.subscriptions import HOLD_S
from headrace.record import Compression

READERS = 3

STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 7), st.integers(1, 40), st.sampled_from(Compression)),
    st.tuples(st.just("put large"), st.integers(0, 7)),
    st.tuples(st.just("split"), st.integers(0, 7)),
    st.tuples(st.just("merge"), st.integers(0, 7)),
    st.tuples(st.just("time"), st.sampled_from([0.5, 5.0, 61.0])),
    st.tuples(st.just("stall"), st.integers(0, READERS - 1)),
    st.tuples(st.just("read on"), st.integers(0, READERS - 1)),
    st.tuples(st.just("leave"), st.integers(0, READERS - 1)),
)


@dataclass
class Reader:
    """A consumer that follows the family of a shard, as a good client does."""

    stage: Stage
    consumer: Consumer
    encoding: Encoding
    peers: dict[int, Peer] = field(default_factory=dict)
    seen: dict[int, list[bytes]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    _continuations: dict[int, str] = field(default_factory=dict)
    _taken: dict[int, int] = field(default_factory=dict)  # events of the present peer that were looked at

    def look(self) -> None:
        """Takes what came, and goes on with children and with what has ended."""
        for shard, peer in list(self.peers.items()):
            fresh = peer.events[self._taken[shard] :]
            self._taken[shard] += len(fresh)
            self.seen[shard] += peer.data[len(peer.data) - sum(len(event["Records"]) for event in fresh) :] if fresh else []
            for event in fresh:
                if "ContinuationSequenceNumber" in event:
                    self._continuations[shard] = event["ContinuationSequenceNumber"]
                else:
                    self.ended.add(shard)
            if peer.ended or peer.gone:
                assert peer.exception is None
                del self.peers[shard]

    def subscribe(self, stream: Stream) -> None:
        """To every shard whose parents are done, where it is not subscribed."""
        for shard in stream.shards:
            ready = all(parent in self.ended for parent in shard.parents)
            if not ready or shard.index in self.ended or shard.index in self.peers:
                continue
            position: dict[str, Any] = HORIZON
            if shard.index in self._continuations:
                position = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._continuations[shard.index]}
            peer = self.stage.subscribe(self.consumer, position, shard.id, self.encoding)
            if peer.status == 200:  # not within five seconds of the last time
                self.peers[shard.index] = peer
                self._taken[shard.index] = 0
                self.seen.setdefault(shard.index, [])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(STEPS, max_size=30))
def test_every_record_comes_once_and_in_order(steps):
    stage = Stage(kinesis_subscription_ms=60_000)
    try:
        follow(stage, steps)
    finally:
        stage.close()


def follow(stage: Stage, steps: list[tuple[Any, ...]]) -> None:
    stream = stage.stream(shards=2)
    encodings = list(Encoding)
    readers = [Reader(stage, stage.consumer(stream, f"c{n}"), encodings[n]) for n in range(READERS)]
    written: dict[int, list[bytes]] = {}
    count = 0

    def put(which: int, size: int, records: int, **options: Any) -> None:
        nonlocal count
        shard = stream.open_shards[which % len(stream.open_shards)].index
        values = [b"%d-%b" % (count + n, b"x" * size) for n in range(records)]
        count += records
        stage.put(stream, *values, shard=shard, **options)
        written.setdefault(shard, []).extend(values)

    for kind, *how in steps:
        for reader in readers:
            reader.subscribe(stream)
        if kind == "put":
            put(how[0], 10, how[1], compression=how[2])
        elif kind == "put large":
            put(how[0], 400_000, 2)
        elif kind == "split" and len(stream.shards) < 12:
            shard = stream.open_shards[how[0] % len(stream.open_shards)]
            stage.run(stage.broker.streams.split(stream, shard, (shard.first_hash + shard.last_hash) // 2))
        elif kind == "merge" and len(stream.open_shards) > 1:
            place = how[0] % (len(stream.open_shards) - 1)
            stage.run(stage.broker.streams.merge(stream, *stream.open_shards[place : place + 2]))
        elif kind == "time":
            stage.advance(how[0])
        elif kind in ("stall", "read on", "leave"):
            for peer in readers[how[0]].peers.values():
                if kind == "stall":
                    peer.reads = False
                else:
                    stage.call(peer.read_on if kind == "read on" else peer.leave)
        stage.settle()
        for reader in readers:
            reader.look()
    for _ in range(2 * len(stream.shards) + 2):
        for reader in readers:
            for peer in reader.peers.values():
                stage.call(peer.read_on)
            reader.subscribe(stream)
        stage.advance(HOLD_S)
        for reader in readers:
            reader.look()
    closed = {shard.index for shard in stream.shards if not shard.is_open}
    for reader in readers:
        assert {shard: seen for shard, seen in reader.seen.items() if seen} == written
        assert reader.ended == closed
        for peer in reader.peers.values():
            stage.call(peer.leave)
    stage.settle()
    assert len(stage.subscriptions) == 0
