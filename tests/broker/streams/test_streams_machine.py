"""Streams and a model of them go through the same life: made, written to, split, merged, scaled, deleted, while writers and
reshards are under way, and a power loss, a kill or a clean end between any two steps.

Whatever happens: the open shards have all hash keys, each once, and a sound lineage. What was acknowledged is in the shard that
its hash key had, before the end of it, and numbers grow along each key. A reshard that was acknowledged survives; another one
happened wholly or not at all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from tests.broker.streams.conftest import ACCOUNT, REGION, Site, check_shape, hash_of, put_record
from tests.log.conftest import SOAK

from headrace.broker.streams.errors import Busy, NotFound
from headrace.broker.streams.resharding import carried_out, plan_count, plan_merge, plan_split
from headrace.broker.streams.shard import Shard
from headrace.broker.streams.stream import Status, Stream
from headrace.broker.topics import NewTopic
from headrace.log.errors import LogError

NAMES = st.sampled_from(["s", "t"])
KEYS = st.integers(0, 5).map(lambda number: f"key-{number}")
MAX_SHARDS = 12

Shape = tuple[tuple[int, int, int | None, int | None, bool], ...]


@dataclass(frozen=True)
class Put:
    key: str
    value: bytes
    shard: int
    offset: int


@dataclass
class Model:
    """A stream as it must be."""

    shape: Shape
    acknowledged: list[Put] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)  # the highest sequence number that was acknowledged, by key
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class UnderWay:
    name: str
    task: asyncio.Task[Any]
    key: str = ""
    value: bytes = b""
    floor: int = -1  # what was acknowledged of this key when it began
    after: Shape = ()  # what a reshard makes of the stream


def shape_of(shards: Any) -> Shape:
    return tuple((shard.first_hash, shard.last_hash, shard.parent, shard.adjacent, shard.is_open) for shard in shards)


class StreamsMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 32), held=st.booleans())
    def begin(self, seed: int, held: bool) -> None:
        self.random = Random(seed)
        self.site = Site(held=held, journal_file_bytes=16384)
        self.models: dict[str, Model] = {}
        self.writers: list[UnderWay] = []
        self.reshards: list[UnderWay] = []
        self.number = 0
        self.make("s", 2, False)
        self.make("t", 1, True)

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.site.rig.end()

    def stream(self, name: str) -> Stream | None:
        return self.site.streams.find(ACCOUNT, REGION, name)

    # --- streams come and go

    @precondition(lambda self: len(self.models) < 2)
    @rule(name=NAMES, shards=st.integers(1, 3), by_kafka=st.booleans())
    def make(self, name: str, shards: int, by_kafka: bool) -> None:
        if name in self.models:
            return
        if by_kafka:
            self.site.run(self.site.topics.create(NewTopic(name, shards)))
        else:
            self.site.make(name, shards)
        stream = self.stream(name)
        assert stream is not None
        assert stream.stored != by_kafka
        self.models[name] = Model(shape_of(stream.shards))

    @rule(name=NAMES, by_kafka=st.booleans(), seldom=st.integers(0, 4))
    def delete(self, name: str, by_kafka: bool, seldom: int) -> None:
        stream = self.stream(name)
        if stream is None:
            assert name not in self.models
            return
        if seldom:
            return
        self.site.run(self.site.topics.delete(name) if by_kafka else self.site.streams.delete(stream))
        assert stream.gone
        del self.models[name]
        self.finish()

    @rule(name=NAMES, value=st.sampled_from("abc"))
    def tag(self, name: str, value: str) -> None:
        stream = self.stream(name)
        if stream is not None:
            self.site.run(self.site.streams.add_tags(stream, {"k": value}))
            self.models[name].tags["k"] = value

    @rule(name=NAMES, more=st.integers(1, 2))
    def kafka_adds_partitions(self, name: str, more: int) -> None:
        stream = self.stream(name)
        if stream is None or len(stream.topic.partitions) + more > MAX_SHARDS:
            return
        try:
            self.site.run(self.site.topics.add_partitions(name, len(stream.topic.partitions) + more))
        except LogError:
            assert stream.stored
        else:
            assert not stream.stored
            self.finish()
            self.models[name].shape = shape_of(stream.shards)
            self.models[name].newest.clear()  # ranges have moved

    # --- writers

    @rule(name=NAMES, key=KEYS)
    def begin_put(self, name: str, key: str) -> None:
        stream = self.stream(name)
        if stream is None:
            return
        self.number += 1
        value = b"%d" % self.number

        async def put() -> tuple[Shard, int]:
            found = await put_record(stream, key, value, self.site.rig.clock.now_ms())
            await self.site.rig.log.synced()
            return found

        floor = self.models[name].newest.get(key, -1)
        self.writers.append(UnderWay(name, self.site.task(put()), key, value, floor))
        self.collect()

    @rule(name=NAMES, key=KEYS)
    def put(self, name: str, key: str) -> None:
        self.begin_put(name, key)
        self.finish()

    # --- reshards

    @rule(name=NAMES, kind=st.sampled_from(["split", "merge", "count"]), number=st.integers(0, 50), wait=st.booleans())
    def reshard(self, name: str, kind: str, number: int, wait: bool) -> None:
        stream = self.stream(name)
        if stream is None:
            return
        opened, shards = stream.open_shards, stream.shards
        streams = self.site.streams
        if kind == "split" or (kind == "merge" and len(opened) == 1):
            shard = opened[number % len(opened)]
            border = shard.first_hash + 2 + (shard.last_hash - shard.first_hash) * (number + 1) // 53
            if len(opened) >= MAX_SHARDS or not shard.first_hash + 1 < border < shard.last_hash:
                return
            plan, work = plan_split(shard, border, len(shards)), streams.split(stream, shard, border)
        elif kind == "merge":
            place = number % (len(opened) - 1)
            low, high = opened[place], opened[place + 1]
            plan, work = plan_merge(low, high, len(shards)), streams.merge(stream, low, high)
        else:
            target = 1 + number % min(MAX_SHARDS, 2 * len(opened))
            plan, work = plan_count(opened, target, len(shards)), streams.update_count(stream, target)
        after = shape_of(carried_out(plan, shards, 0))
        busy = stream.status is not Status.ACTIVE
        task = self.site.task(work)
        if busy:
            assert isinstance(task.exception(), Busy)
            return
        self.reshards.append(UnderWay(name, task, after=after))
        if wait:
            self.finish()
        self.collect()

    # --- time passes

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.site.rig.pump()
            self.site.rig.turn()
        self.collect()

    def finish(self) -> None:
        for _ in range(500):
            if all(one.task.done() for one in self.writers + self.reshards):
                break
            self.site.rig.pump()
            self.site.rig.turn()
        else:
            raise AssertionError("something waits for ever")
        self.collect()

    def collect(self) -> None:
        """What was acknowledged since, and what failed."""
        for one in [one for one in self.writers if one.task.done()]:
            self.writers.remove(one)
            model = self.models.get(one.name)
            if one.task.exception() is not None:  # the stream was deleted, and perhaps made again
                assert isinstance(one.task.exception(), LogError)
                continue
            shard, offset = one.task.result()
            stream = self.stream(one.name)
            if stream is None or model is None or shard not in stream.shards:
                continue
            assert shard.first_hash <= hash_of(one.key) <= shard.last_hash
            number = int(shard.sequence_number(offset))
            assert number > one.floor
            model.newest[one.key] = max(model.newest.get(one.key, -1), number)
            model.acknowledged.append(Put(one.key, one.value, shard.index, offset))
        for one in [one for one in self.reshards if one.task.done()]:
            self.reshards.remove(one)
            if one.task.exception() is not None:
                assert isinstance(one.task.exception(), NotFound)
            elif one.name in self.models:
                self.models[one.name].shape = one.after

    def possible(self, name: str) -> list[Shape]:
        return [self.models[name].shape, *(one.after for one in self.reshards if one.name == name)]

    # --- ends

    @rule(how=st.sampled_from(["crash", "kill", "restart"]), seed=st.integers(0, 1 << 32))
    def end(self, how: str, seed: int) -> None:
        if how == "restart":
            self.finish()
            self.site.restart()
        elif how == "kill":
            self.site.rig.kill()
            self.site.rig.open()
            self.site.start()
        else:
            self.site.crash(seed)
        possible = {name: self.possible(name) for name in self.models}
        self.writers.clear()
        self.reshards.clear()
        assert self.site.streams.names(ACCOUNT, REGION) == sorted(self.models)
        for name, model in self.models.items():
            stream = self.stream(name)
            assert stream is not None
            model.shape = shape_of(stream.shards)
            assert model.shape in possible[name]
            assert stream.tags == model.tags
            self.check_records(stream, model)

    def check_records(self, stream: Stream, model: Model) -> None:
        stored: dict[int, dict[int, tuple[bytes | None, bytes | None]]] = {}
        for shard in stream.shards:
            records = self.site.rig.records(stream.topic.name, shard.index)
            stored[shard.index] = {record.offset: (record.key, record.value) for record in records}
            if shard.closed_at is not None:
                assert all(offset < shard.closed_at for offset in stored[shard.index])
                assert shard.closed_at <= stream.partition(shard).end_offset
        for put in model.acknowledged:
            assert stored[put.shard][put.offset] == (put.key.encode(), put.value)

    # --- always

    @invariant()
    def shapes_are_sound(self) -> None:
        self.collect()
        assert self.site.streams.names(ACCOUNT, REGION) == sorted(self.models)
        for name in self.models:
            stream = self.stream(name)
            assert stream is not None
            settled = stream.status is Status.ACTIVE
            check_shape(stream, seals=settled)
            assert shape_of(stream.shards) in self.possible(name)
            for shard in stream.shards:
                if shard.closed_at is not None:
                    assert stream.partition(shard).end_offset == shard.closed_at


def test_streams_keep_their_promises() -> None:
    profile = settings.get_profile("log-soak" if SOAK else "log")
    examples = profile.max_examples if SOAK else 60
    run_state_machine_as_test(
        StreamsMachine, settings=settings(profile, max_examples=examples, stateful_step_count=80 if SOAK else 40)
    )
