"""A broker with share groups on a simulated disk and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import pytest

from headrace.broker import Broker
from headrace.broker.groups.share.coordinator import Answer, Beat
from headrace.broker.groups.share.fetching import Wish
from headrace.broker.groups.share.partition import SharePartition, Taken
from headrace.broker.groups.share.runs import Acknowledgement, AckType
from headrace.broker.groups.share.sessions import ShareSession
from headrace.broker.groups.share.state_rows import Place
from headrace.broker.settings import Settings
from headrace.broker.topics import NewTopic
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.threads import InlineWorker
from headrace.record import Event, Record, batches, decode_batch, encode_batch
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk

T = TypeVar("T")


class Crash(BaseException):
    """The power goes off. Not an Exception, so that nothing can handle it."""


class ShareRig:
    """One data folder and the broker on it; `group` reads `topic`."""

    group = "workers"
    topic = "jobs"
    dead_topic = "dlq.jobs"

    def __init__(self, **server: str) -> None:
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.random = Random(7)
        self.loop = asyncio.new_event_loop()
        self.server = {"group.share.min.record.lock.duration.ms": "1000"} | {
            name.replace("_", "."): value for name, value in server.items()
        }
        self.sessions: dict[str, ShareSession] = {}
        self.open()

    # -- the server's life

    def open(self) -> None:
        settings = Settings.from_mapping(self.server)
        self.log = self.call(
            lambda: EmbeddedLog.open(
                self.disk,
                self.clock,
                commit_worker=InlineWorker(),
                keeper=InlineWorker(),
                random_bytes=self.random.randbytes,
                journal_file_bytes=64 * 1024,
                reserve_bytes=0,
                retention_interval_s=1e9,
            )
        )
        self.broker = self.call(lambda: Broker(self.log, self.clock, settings, "cluster"))
        self.run(self.broker.start())
        self.sessions = {}

    def crash(self) -> None:
        """Power loss, and a start after it."""
        self._end()
        self.disk.crash(self.random)
        self.clock = SimulatedClock(self.clock.now_ms() + 1)
        self.open()

    def crash_at(self, step: int) -> None:
        """The power goes off before the disk does its n-th step from now on."""
        left = [step]

        def count() -> None:
            if left[0] <= 0:
                raise Crash
            left[0] -= 1

        self.disk.on_step = count

    def _end(self) -> None:
        self.disk.on_step = None
        self.disk.stop()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for _ in range(5):
            self.loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        self._end()
        self.loop.close()

    # -- running

    def call(self, function: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return function()

        return self.loop.run_until_complete(on_loop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end, moving time on a little while it waits."""
        task = self.loop.create_task(work)
        try:
            for _ in range(3000):
                self.turn()
                if task.done():
                    return task.result()
                self.advance(0.002)
        except BaseException:
            task.cancel()
            raise
        task.cancel()
        raise AssertionError("it waits for ever")

    def turn(self) -> None:
        """One turn of the event loop. A crash in the background is one of the whole."""
        crashed: list[BaseException] = []
        self.loop.set_exception_handler(lambda _, context: crashed.append(context.get("exception") or Crash()))
        self.loop.run_until_complete(asyncio.sleep(0))
        if any(isinstance(error, Crash) for error in crashed):
            raise Crash

    def advance(self, seconds: float) -> None:
        self.call(lambda: self.clock.advance(seconds))

    def settle(self) -> None:
        """What goes on in the background comes to its end."""
        for _ in range(20):
            self.turn()
            self.advance(0.001)

    # -- short words for what tests do

    def configure(self, group: str | None = None, /, **config: str) -> None:
        texts = {name.replace("_", "."): text for name, text in config.items()}
        self.run(self.broker.group_configs.configure(group or self.group, lambda old: {**old, **texts}))

    def create(self, topic: str | None = None, partitions: int = 1, **config: str) -> UUID:
        named = {name.replace("_", "."): text for name, text in config.items()}
        return self.run(self.broker.topics.create(NewTopic(topic or self.topic, partitions, config=named))).topic_id

    def produce(self, *values: bytes | None, topic: str | None = None, partition: int = 0) -> int:
        """One batch; durable. The first offset."""
        batch = encode_batch([Event(b"key", value, timestamp_ms=self.clock.now_ms()) for value in values])
        log = self.log.partition(topic or self.topic, partition)
        assert log is not None
        offset = self.call(lambda: log.append(batch))
        self.run(self.log.synced())
        return offset

    def beat(self, member: str, epoch: int = 0, topics: Iterable[str] | None = None, group: str | None = None) -> Answer:
        named = frozenset(topics) if topics is not None else frozenset({self.topic}) if epoch == 0 else None
        beat = Beat(group or self.group, member, epoch, None, named, "client", "/127.0.0.1")
        return self.run(self.broker.share_groups.heartbeat(beat))

    def session(self, member: str, partitions: Sequence[int] = (0,)) -> ShareSession:
        found = self.sessions.get(member)
        if found is None or not found.open:
            topic = self.broker.topics.get(self.topic)
            assert topic is not None
            places = [(topic.topic_id, index) for index in partitions]
            found = self.sessions[member] = self.call(
                lambda: self.broker.share_groups.sessions.begin(self.group, member, places, [])
            )
        return found

    def fetch(self, member: str, records: int = 500, *, strict: bool = False, wait_ms: int = 0) -> dict[int, Record]:
        """Acquires from partition 0; the records by offset."""
        wish = Wish(wait_ms, 1, 1 << 20, records, strict)
        answers = self.run(self.broker.share_groups.fetching.fetch(self.session(member), wish))
        found: dict[int, Record] = {}
        self.counts: dict[int, int] = {}
        for answer in answers.values():
            assert isinstance(answer, Taken), answer
            by_offset = {record.offset: record for _, batch in batches(answer.records) for record in decode_batch(batch)}
            for piece in answer.acquired:
                for offset in range(piece.first, piece.last + 1):
                    self.counts[offset] = piece.count
                    if offset in by_offset:
                        found[offset] = by_offset[offset]
        return found

    def acknowledge(self, member: str, offsets: Iterable[int], kind: AckType) -> Exception | None:
        """Each offset for itself; what was answered."""
        topic = self.broker.topics.get(self.topic)
        assert topic is not None
        acks = [Acknowledgement(offset, offset, (kind,)) for offset in sorted(offsets)]
        given: Mapping[Any, Any] = {(topic.topic_id, 0): acks}
        answers = self.run(self.broker.share_groups.fetching.acknowledge(self.group, member, given))
        return next(iter(answers.values()))

    def share_partition(self) -> SharePartition | None:
        topic = self.broker.topics.get(self.topic)
        assert topic is not None
        return self.broker.share_groups.partitions.get(Place(self.group, topic.topic_id, 0))

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """Everything readable in a topic; nothing when there is no such."""
        log = self.log.partition(topic, partition)
        if log is None:
            return []

        async def read() -> list[Record]:
            offset, found = log.start_offset, []
            while offset < log.high_watermark:
                data = log.read(offset, 1 << 20)
                data = data if isinstance(data, bytes | bytearray | memoryview) else await data
                for header, batch in batches(data):
                    found += decode_batch(batch)
                    offset = header.last_offset + 1
            return found

        return self.run(read())


@pytest.fixture
def rigs() -> Iterator[Callable[..., ShareRig]]:
    made: list[ShareRig] = []

    def make(**server: str) -> ShareRig:
        made.append(ShareRig(**server))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(rigs: Callable[..., ShareRig]) -> ShareRig:
    """A topic, and a group that reads it from the start and has a dead-letter topic."""
    rig = rigs()
    rig.create()
    rig.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=rig.dead_topic)
    rig.beat("m1")
    return rig


@pytest.fixture(scope="session")
def share_rig_class() -> type[ShareRig]:
    return ShareRig


@pytest.fixture(scope="session")
def crash_class() -> type[Crash]:
    return Crash
