"""A broker's transactions on a log on a simulated disk: real tables and partitions, no sockets and no waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from random import Random
from typing import Any, TypeVar

import pytest

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.threads import InlineWorker
from headrace.record import Event, batches, encode_batch
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk

T = TypeVar("T")


class Stage:
    """One data folder and the broker on it; `crash` loses what was not synced."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.random = Random(7)
        self.loop = asyncio.new_event_loop()
        self.settings: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        self.log = self.call(
            lambda: EmbeddedLog.open(
                self.disk,
                self.clock,
                commit_worker=InlineWorker(),
                keeper=InlineWorker(),
                journal_file_bytes=1 << 20,
                reserve_bytes=0,
                retention_interval_s=1e9,
                random_bytes=self.random.randbytes,
            )
        )
        self.broker = Broker(self.log, self.clock, Settings.from_mapping(self.settings), "cluster")
        self.run(self.broker.start())

    @property
    def transactions(self) -> Any:
        return self.broker.transactions

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end, moving time on while it waits."""
        task = self.loop.create_task(work)
        for _ in range(2000):
            self.loop.run_until_complete(asyncio.sleep(0))
            if task.done():
                return task.result()
            self.advance(0.002)
        raise AssertionError("it waits for ever")

    def call(self, function: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return function()

        return self.loop.run_until_complete(on_loop())

    def advance(self, seconds: float) -> None:
        self.call(lambda: self.clock.advance(seconds))

    def restart(self) -> None:
        self.call(self.broker.close)
        self.run(self.log.close())
        self._again()

    def crash(self) -> None:
        """kill -9, and the power too: what was not synced is gone."""
        self.call(self.broker.close)
        self.disk.stop()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))
        self.disk.crash(self.random)
        self._again()

    def _again(self) -> None:
        self.clock = SimulatedClock(self.clock.now_ms() + 1)
        self.open()

    def end(self) -> None:
        self.disk.stop()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    # --- short words

    def topic(self, name: str = "t", partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self.run(self.log.create_topic(name, partitions, config or {}))

    def partition(self, topic: str = "t", index: int = 0) -> EmbeddedPartition:
        found = self.log.partition(topic, index)
        assert found is not None
        return found

    def init(self, name: str = "tx", timeout_ms: int = 60_000, expected: tuple[int, int] | None = None) -> tuple[int, int]:
        return self.run(self.transactions.init_producer(name, timeout_ms, expected))

    def write(self, producer: tuple[int, int], sequence: int = 0, *, name: str = "tx", topic: str = "t", index: int = 0) -> int:
        """As a Produce of transactions V2 does."""
        producer_id, epoch = producer
        refused = self.call(lambda: self.transactions.admit_writes(name, producer_id, epoch, ((topic, index),), add=True))
        if refused:
            raise next(iter(refused.values()))
        batch = bytearray(
            encode_batch(
                [Event(None, b"value", timestamp_ms=self.clock.now_ms())],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        offset = self.call(lambda: self.partition(topic, index).append(batch))
        self.run(self.log.synced())
        return offset

    def end_transaction(
        self, producer: tuple[int, int], *, commit: bool, bump: bool = True, name: str = "tx"
    ) -> tuple[int, int]:
        return self.run(self.transactions.end(name, *producer, commit=commit, bump=bump))

    def kinds(self, topic: str = "t", index: int = 0) -> list[str]:
        """What stands in a partition, batch by batch."""
        partition = self.partition(topic, index)
        if partition.high_watermark == partition.start_offset:
            return []
        data = partition.read(partition.start_offset, 1 << 20)
        assert isinstance(data, bytes | bytearray | memoryview)
        return ["marker" if header.control else "data" for header, _ in batches(data)]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.end()
