"""A server in a thread of the test's own process, so that the test can lay hands on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from headrace.amqp.listener import AmqpListener
from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.log.embedded import EmbeddedLog


class SmallDisk(RealDisk):
    full = False

    def free_bytes(self) -> int:
        return 0 if self.full else super().free_bytes()


class InProcess:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._ready.wait(20)

    async def _run(self) -> None:
        clock, settings = SystemClock(), Settings.from_mapping({})
        self.loop = asyncio.get_running_loop()
        self.disk = SmallDisk(self._folder)
        self.log = EmbeddedLog.open(self.disk, clock)
        self.broker = Broker(self.log, clock, settings, "test")
        await self.broker.start()
        self.listener = AmqpListener(self.broker)
        _, port = await self.listener.start("127.0.0.1", 0)
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self._stop = asyncio.Event()
        self._ready.set()
        await self._stop.wait()
        await self.listener.stop()
        self.broker.close()
        await self.log.close()

    def call(self, work: Callable[[], object]) -> None:
        """In the server's thread; returns when it is done."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (work(), done.set()))
        assert done.wait(10)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
