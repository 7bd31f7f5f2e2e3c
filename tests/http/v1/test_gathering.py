"""Events of one turn of the event loop are one batch for each partition, and each is told where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.http.v1.in_process import server_here

from headrace.broker import Broker
from headrace.http.problems import Problem
from headrace.http.v1.appending import Appending, Stored
from headrace.http.v1.events import Incoming
from headrace.http.v1.gathering import Gathering, Where
from headrace.log.errors import DiskFull
from headrace.record.batch import batches, decode_batch


class Waiter:
    def __init__(self, told: list[Any]) -> None:
        self._told = told

    def stored(self, where: Where, error: Exception | None) -> None:
        self._told.append(Stored(*where) if error is None else error)

    def refused(self) -> None:
        self._told.append("refused")


class Rig:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.gathering = Gathering(broker, Appending(broker))
        self.told: list[Any] = []

    def add(self, topic: str, value: bytes, key: bytes | None = None, **more: Any) -> None:
        self.gathering.add(self.broker.log.topics()[topic], Incoming(key, value, **more), Waiter(self.told))

    async def wait(self, count: int) -> list[Any]:
        async with asyncio.timeout(30):
            while len(self.told) < count:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.001)
        told = list(self.told)
        self.told.clear()
        return told

    async def stored(self, topic: str, partition: int = 0) -> list[list[bytes | None]]:
        """The values of each batch."""
        found: Any = self.broker.log.topics()[topic].partitions[partition].read(0, 10_000_000)
        if isinstance(found, Awaitable):
            found = await found
        return [[record.value for record in decode_batch(batch)] for _, batch in batches(found)]


def run(folder: Path, test: Callable[[Rig], Awaitable[None]], **topics: dict[str, str]) -> None:
    async def main() -> None:
        async with server_here(folder) as (_, broker):
            for name, config in topics.items():
                await broker.log.create_topic(name, 2, config)
            await test(Rig(broker))

    asyncio.run(main())


@pytest.mark.parametrize("durability", ["memory", "flush", "fsync"])
def test_events_of_one_turn_are_one_batch_for_each_partition(tmp_path: Path, durability: str) -> None:
    async def test(rig: Rig) -> None:
        for number in range(5):
            rig.add("t", b"%d" % number, partition=number % 2, timestamp_ms=100 + number)
        told = await rig.wait(5)
        assert sorted(told) == [Stored(0, 0, 100), Stored(0, 1, 102), Stored(0, 2, 104), Stored(1, 0, 101), Stored(1, 1, 103)]
        rig.add("t", b"5", partition=0, timestamp_ms=5)
        assert await rig.wait(1) == [Stored(0, 3, 5)]
        assert await rig.stored("t") == [[b"0", b"2", b"4"], [b"5"]]
        assert await rig.stored("t", 1) == [[b"1", b"3"]]

    run(tmp_path, test, t={"durability": durability})


def test_a_batch_is_no_larger_than_its_topic_takes(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        for _ in range(5):
            rig.add("t", b"x" * 400, partition=0)
        assert [where.offset for where in await rig.wait(5)] == [0, 1, 2, 3, 4]
        assert [len(batch) for batch in await rig.stored("t")] == [2, 2, 1]
        with pytest.raises(Problem) as refused:
            rig.add("t", b"x" * 1001, partition=0)
        assert refused.value.code == "event_too_large"

    run(tmp_path, test, t={"max.message.bytes": "1000"})


def test_a_topic_that_is_deleted_meanwhile_or_a_full_disk_refuses_its_own_alone(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        rig.add("t", b"1", partition=0)
        rig.add("u", b"2", partition=0)
        rig.add("t", b"3", partition=1)
        rig.broker.log.drop_topic("t")
        told = await rig.wait(3)
        assert told.count("refused") == 2
        (where,) = [each for each in told if each != "refused"]
        assert (where.partition, where.offset) == (0, 0)
        rig.broker.log.refusal = DiskFull("no room")
        rig.add("u", b"4", partition=0)
        assert await rig.wait(1) == ["refused"]
        rig.broker.log.refusal = None
        assert await rig.stored("u") == [[b"2"]]

    run(tmp_path, test, t={}, u={})


def test_a_topic_that_stamps_its_own_time_tells_it(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        rig.add("t", b"1", partition=0, timestamp_ms=1)
        rig.add("t", b"2", partition=0, timestamp_ms=2)
        first, second = await rig.wait(2)
        assert first.timestamp_ms == second.timestamp_ms > 1_700_000_000_000

    run(tmp_path, test, t={"message.timestamp.type": "LogAppendTime"})
