"""The service without a socket: a broker on a simulated disk, a clock that stands still, an event loop that turns when told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.broker.streams.stream import Stream
from headrace.kinesis.service import Service
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.threads import InlineWorker
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk

T = TypeVar("T")

ACCOUNT, REGION = "123456789012", "us-east-1"


class Inside:
    journal_file_bytes = 1 << 20

    def __init__(self, **settings: object) -> None:
        self.clock = SimulatedClock()
        self.loop = asyncio.new_event_loop()
        self.disk = SimulatedDisk()
        self.settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.open()

    def open(self) -> None:
        self.log = self.call(
            lambda: EmbeddedLog.open(
                self.disk,
                self.clock,
                commit_worker=InlineWorker(),
                keeper=InlineWorker(),
                journal_file_bytes=self.journal_file_bytes,
                reserve_bytes=0,
                retention_interval_s=1e9,
                random_bytes=Random(7).randbytes,
            )
        )
        self.broker = Broker(self.log, self.clock, Settings.from_mapping(self.settings), "cluster")
        self.run(self.broker.start())
        self.service = Service(self.broker)

    def end(self) -> None:
        """It may be opened again."""
        self.run(self.service.stop())
        self.call(self.broker.close)
        self.run(self.log.close())

    def call(self, function: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return function()

        return self.loop.run_until_complete(on_loop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end, moving time on a little while it waits."""
        task = self.loop.create_task(work)
        for _ in range(2000):
            self.turn()
            if task.done():
                return task.result()
            self.call(lambda: self.clock.advance(0.001))
        raise AssertionError("it waits for ever")

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        self.call(lambda: self.clock.advance(seconds))

    def stream(self, name: str = "orders", shards: int = 1) -> Stream:
        return self.run(self.broker.streams.create(ACCOUNT, REGION, name, shards=shards))
