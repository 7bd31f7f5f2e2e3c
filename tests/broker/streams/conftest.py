"""Topics and streams on a log with a simulated disk, that can be crashed and started again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine, Iterator
from hashlib import md5
from typing import Any, TypeVar

import pytest
from tests.log.conftest import Rig

from headrace.broker.settings import Settings
from headrace.broker.streams.shard import Shard
from headrace.broker.streams.stream import Stream
from headrace.broker.streams.streams import Streams
from headrace.broker.topics import Topics
from headrace.log.errors import PartitionSealed
from headrace.record import Event, batches, decode_batch, encode_batch

T = TypeVar("T")

ACCOUNT, REGION = "123456789012", "us-east-1"
HALF = 1 << 127


class Site:
    def __init__(self, *, settings: dict[str, str] | None = None, **options: Any) -> None:
        self.settings = settings or {}
        self.rig = Rig(**options)
        self.rig.open()
        self.start()

    # --- its life

    def start(self) -> None:
        settings = Settings.from_mapping(self.settings)
        self.topics = Topics(self.rig.log, settings)
        self.streams = Streams(self.rig.log, self.rig.clock, settings, self.topics)
        self.rig.run(self.streams.start())

    def crash(self, seed: int | None = None) -> None:
        self.rig.crash(seed)
        self.rig.open()
        self.start()

    def restart(self) -> None:
        self.rig.call(self.streams.close)
        self.rig.restart()
        self.start()

    # --- what tests do

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.rig.run(work)

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begins it, and no more."""
        task = self.rig.loop.create_task(work)
        self.rig.turn()
        return task

    def make(self, name: str = "s", shards: int = 1, *, region: str = REGION, account: str = ACCOUNT, **given: Any) -> Stream:
        return self.run(self.streams.create(account, region, name, shards=shards, **given))

    def find(self, name: str = "s", *, region: str = REGION, account: str = ACCOUNT) -> Stream:
        found = self.streams.find(account, region, name)
        assert found is not None
        return found

    def split(self, stream: Stream, index: int, border: int | None = None) -> None:
        shard = stream.shards[index]
        self.run(self.streams.split(stream, shard, (shard.first_hash + shard.last_hash + 1) // 2 if border is None else border))

    def merge(self, stream: Stream, index: int, adjacent: int) -> None:
        self.run(self.streams.merge(stream, stream.shards[index], stream.shards[adjacent]))

    def put(self, stream: Stream, key: str, value: bytes = b"x") -> tuple[Shard, int]:
        """Durable when it returns; where it is."""

        async def put() -> tuple[Shard, int]:
            found = await put_record(stream, key, value, self.rig.clock.now_ms())
            await self.rig.log.synced()
            return found

        return self.run(put())

    def values(self, stream: Stream, shard: Shard) -> list[bytes | None]:
        async def read() -> list[bytes | None]:
            partition = stream.partition(shard)
            data = partition.read(partition.start_offset, 1 << 24)
            if isinstance(data, Awaitable):
                data = await data
            return [record.value for _, batch in batches(data) for record in decode_batch(batch)]

        return self.run(read())


def hash_of(key: str) -> int:
    return int.from_bytes(md5(key.encode()).digest(), "big")


async def put_record(stream: Stream, key: str, value: bytes, now_ms: int) -> tuple[Shard, int]:
    """As a front end does it: it waits when a reshard is in the way."""
    while True:
        shard = stream.shard_for(hash_of(key))
        batch = bytearray(encode_batch([Event(key.encode(), value)], now_ms=now_ms))
        try:
            return shard, stream.partition(shard).append(batch)
        except PartitionSealed:
            await stream.settled()


def check_shape(stream: Stream, *, seals: bool = True) -> None:
    """What is true of the shards of every stream at any time; of seals, while it is not resharded."""
    opened = stream.open_shards
    assert opened[0].first_hash == 0
    assert opened[-1].last_hash == (1 << 128) - 1
    assert all(low.last_hash + 1 == high.first_hash for low, high in itertools.pairwise(opened))
    for shard in stream.shards:
        children = stream.children(shard)
        if shard.is_open:
            assert not children
            assert shard.closed_ms is None
        else:
            assert 1 <= len(children) <= 2
            assert all(child.created_ms == shard.closed_ms and child.created_ms > shard.created_ms for child in children)
            assert all(int(child.starting_sequence_number) > int(shard.ending_sequence_number or 0) for child in children)
        parents = [stream.shards[index] for index in shard.parents]
        assert all(parent.index < shard.index for parent in parents)
        if len(parents) == 2:
            assert {parent.first_hash for parent in parents} >= {shard.first_hash}
            assert sum(parent.last_hash - parent.first_hash + 1 for parent in parents) == shard.last_hash - shard.first_hash + 1
        elif parents:
            assert parents[0].first_hash <= shard.first_hash <= shard.last_hash <= parents[0].last_hash
    if not seals:
        return
    sealed = [bool(partition.sealed) for partition in stream.topic.partitions]
    assert sealed == [
        index >= len(stream.shards) or not stream.shards[index].is_open for index in range(len(stream.topic.partitions))
    ]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.rig.end()
