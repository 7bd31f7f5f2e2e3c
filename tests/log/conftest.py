"""A server's log on a simulated disk, a clock that stands still, and threads that work when told.

`Rig` opens, crashes and reopens one folder. Hypothesis profiles: `log` is quick; `log-soak`, chosen by HEADRACE_SOAK=1, runs
thousands of examples.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.threads import InlineWorker
from headrace.log.errors import DiskFull
from headrace.record import Event, batches, decode_batch, encode_batch
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.testing.worker import HeldWorker

T = TypeVar("T")

_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
settings.register_profile(
    "log", max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=_QUIET, print_blob=True
)
settings.register_profile(
    "log-soak", max_examples=5000, stateful_step_count=80, deadline=None, suppress_health_check=_QUIET, print_blob=True
)
SOAK = os.environ.get("HEADRACE_SOAK") == "1"


class Crash(BaseException):
    """The power goes off. Not an Exception, so that nothing in the log can handle it."""


class Rig:
    """One data folder, its clock, and the log on it while it is open."""

    def __init__(self, *, held: bool = False, direct: bool = True, capacity_bytes: int | None = None, **options: Any) -> None:
        self.disk = SimulatedDisk(capacity_bytes=capacity_bytes)
        self.clock = SimulatedClock()
        self.random = Random(7)
        self.loop = asyncio.new_event_loop()
        self.held = held
        self.direct = direct
        self.options: dict[str, Any] = {
            "journal_file_bytes": 64 * 1024,
            "journal_files": 3,
            "reserve_bytes": 0,
            "retention_interval_s": 1e9,
            "random_bytes": self.random.randbytes,
        } | options
        self.commit_worker: Any = None
        self.keeper: Any = None
        self._log: EmbeddedLog | None = None

    @property
    def log(self) -> EmbeddedLog:
        assert self._log is not None
        return self._log

    # --- running

    def run(self, work: Coroutine[Any, Any, T], *, pump: bool = True) -> T:
        """Runs a coroutine to its end, moving time and threads on while it waits."""
        task = self.loop.create_task(work)
        try:
            for _ in range(2_000):
                self.turn()
                if task.done():
                    return task.result()
                if pump:
                    self.pump()
        except BaseException:
            task.cancel()
            raise
        task.cancel()
        raise AssertionError("it waits for ever")

    def turn(self) -> None:
        """One turn of the event loop."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def call(self, function: Callable[[], T]) -> T:
        """Calls a plain function on the event loop."""

        async def on_loop() -> T:
            return function()

        return self.loop.run_until_complete(on_loop())

    def pump(self) -> None:
        """Threads do what they have; when they have nothing, time passes a little."""
        if self.held and self.call(lambda: self.commit_worker.run() | self.keeper.run()):
            return
        self.advance(0.002)

    def advance(self, seconds: float) -> None:
        self.call(lambda: self.clock.advance(seconds))

    def settle(self) -> None:
        """Everything that was written becomes durable, and background work ends."""
        self.run(self.log.synced())
        for _ in range(20):
            self.turn()
            if self.held:
                self.call(lambda: self.commit_worker.run() | self.keeper.run())

    def checkpoint(self) -> None:
        self.run(self.log.checkpoints.run())

    def checkpoint_while_held(self) -> None:
        """A whole checkpoint on the keeper's thread, while the commit thread does nothing."""
        checkpoint = self.loop.create_task(self.log.checkpoints.run())
        self.turn()
        self.call(self.keeper.run)
        self.turn()
        assert checkpoint.done()

    # --- the folder's life

    def open(self) -> EmbeddedLog:
        make: Callable[[], Any] = HeldWorker if self.held else InlineWorker
        self.commit_worker, self.keeper = make(), make()
        self.disk.direct = self.commit_worker.submit if self.direct else None
        self._log = self.call(
            lambda: EmbeddedLog.open(
                self.disk, self.clock, commit_worker=self.commit_worker, keeper=self.keeper, **self.options
            )
        )
        self._log.in_thread = self._at_once  # type: ignore[method-assign,assignment]
        return self._log

    def _at_once(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future = self.loop.create_future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        self.run(self.log.close())
        self._log = None
        self._forget_timers()

    def crash(self, seed: int | None = None) -> None:
        """Power loss: everything that was not synced is lost, kept or torn."""
        self._end_tasks()
        self.disk.crash(self.random if seed is None else Random(seed))
        self._log = None
        self._forget_timers()

    def kill(self) -> None:
        """kill -9: the process is gone, what it wrote is in the page cache."""
        self._end_tasks()
        self.disk.kill()
        self._log = None
        self._forget_timers()

    def reopen(self, seed: int | None = None) -> EmbeddedLog:
        self.crash(seed)
        return self.open()

    def restart(self) -> EmbeddedLog:
        self.close()
        return self.open()

    def _forget_timers(self) -> None:
        now_ms = self.clock.now_ms()
        self.clock = SimulatedClock(now_ms + 1)

    def _end_tasks(self) -> None:
        self.disk.on_step = None
        self.disk.stop()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for _ in range(3):
            self.turn()

    def end(self) -> None:
        if self.loop.is_closed():
            return
        self._end_tasks()
        self.loop.close()

    # --- short words for what tests do

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        self.run(self.log.create_topic(name, partitions, {key.replace("_", "."): value for key, value in config.items()}))

    def partition(self, topic: str = "t", index: int = 0) -> EmbeddedPartition:
        found = self.log.partition(topic, index)
        assert found is not None
        return found

    def append(self, *values: bytes, topic: str = "t", index: int = 0, waits: bool = False, **how: Any) -> int:
        """One batch of these values; returns its base offset."""
        batch = self.batch(*values, **how)
        return self.call(lambda: self.partition(topic, index).append(batch, waits=waits))

    def batch(self, *values: bytes, key: bytes | None = None, timestamp_ms: int | None = None, **how: Any) -> bytearray:
        when = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        return bytearray(encode_batch([Event(key, value, timestamp_ms=when) for value in values], **how))

    def write(self, *values: bytes, **how: Any) -> int:
        """Appends and waits until it is durable."""
        offset = self.append(*values, **how)
        self.settle()
        return offset

    def fill(self, count: int, topic: str = "t", size: int = 100) -> None:
        """So many batches of one record, durable."""
        for number in range(count):
            self.append(b"%d" % number + bytes(size), topic=topic)
        self.settle()

    def fill_the_disk(self, topic: str) -> None:
        for _ in range(3000):
            try:
                self.append(bytes(5000), topic=topic)
            except DiskFull:
                return
            self.settle()
            self.advance(1)
        raise AssertionError("the disk never gets full")

    def leases(self, table: str = "rows") -> list[Any]:
        async def take() -> list[Any]:
            return [lease async for lease in self.log.leases("group", table)]

        return self.run(take())

    def values(self, topic: str = "t", index: int = 0) -> list[bytes | None]:
        """Everything readable from the start on."""
        return [record.value for record in self.records(topic, index)]

    def records(self, topic: str = "t", index: int = 0) -> list[Any]:
        partition = self.partition(topic, index)
        offset, found = partition.start_offset, []
        while offset < partition.high_watermark:
            data = self.read(offset, topic=topic, index=index)
            assert len(data), f"nothing at {offset}, below the high watermark {partition.high_watermark}"
            for header, view in batches(data):
                found += [record for record in decode_batch(view) if record.offset >= offset]
                offset = header.last_offset + 1
        return found

    def read(self, offset: int, max_bytes: int = 1 << 20, *, topic: str = "t", index: int = 0, **how: Any) -> bytes:
        async def reading() -> bytes:
            data = self.partition(topic, index).read(offset, max_bytes, **how)
            return bytes(data if isinstance(data, bytes | bytearray | memoryview) else await data)

        return self.loop.run_until_complete(reading())

    def files(self, folder: str = "") -> Mapping[str, int]:
        """Every file below a folder, with its size."""
        found: dict[str, int] = {}
        for name in self.disk.list(folder):
            path = f"{folder}/{name}" if folder else name
            inside = self.files(path)
            found |= inside or {path: self.disk.size(path)}
        return found

    def crash_at(self, step: int) -> None:
        """The power goes off before the disk does its n-th step from now on."""
        left = [step]

        def count() -> None:
            if left[0] <= 0:
                raise Crash
            left[0] -= 1

        self.disk.on_step = count


@pytest.fixture
def rigs() -> Iterator[Callable[..., Rig]]:
    """Makes rigs and ends them."""
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        made.append(Rig(**options))
        return made[-1]

    yield make
    for rig in made:
        rig.end()


@pytest.fixture
def rig(rigs: Callable[..., Rig]) -> Rig:
    """A folder that is open."""
    rig = rigs()
    rig.open()
    return rig


@pytest.fixture(scope="session")
def rig_class() -> type[Rig]:
    return Rig


@pytest.fixture(scope="session")
def crash_class() -> type[Crash]:
    return Crash


@pytest.fixture(scope="session")
def soak() -> bool:
    """Whether there is time for everything."""
    return SOAK


@pytest.fixture(scope="session")
def profile() -> settings:
    return settings.get_profile("log-soak" if SOAK else "log")
