"""Publishers wait while the server is low on disk or memory: they are told, not read, and lose nothing. Others go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.amqp.wire import PERSISTENT, Wire

from headrace.amqp.listener import AmqpListener
from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.log.embedded import EmbeddedLog
from headrace.log.errors import DiskFull
from headrace.testing import wait_until


class SmallDisk(RealDisk):
    full = False

    def free_bytes(self) -> int:
        return 0 if self.full else super().free_bytes()


class InProcess:
    """A server in a thread of this process, so that a test can lay hands on it."""

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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcess]:
    server = InProcess(tmp_path)
    yield server
    server.close()


@pytest.fixture
def connect(server: InProcess) -> Iterator[Callable[[], Wire]]:
    opened: list[Wire] = []

    def make() -> Wire:
        wire = Wire(server.url)
        opened.append(wire)
        wire.log_in()
        wire.open()
        return wire

    yield make
    for wire in opened:
        wire.close()


def fill(server: InProcess, full: bool) -> None:
    server.disk.full = full
    server.call(lambda: setattr(server.log, "refusal", DiskFull("full") if full else None))


def test_a_publisher_is_told_and_goes_on_later_and_a_consumer_is_served(server: InProcess, connect: Callable[[], Wire]) -> None:
    publisher, late, consumer = connect(), connect(), connect()
    consumer.call(1, QueueDeclare("q"), QueueDeclareOk)
    consumer.call(1, BasicConsume("q", "c"), BasicConsumeOk)
    publisher.call(1, ConfirmSelect(), ConfirmSelectOk)
    publisher.publish(1, "q", b"before")
    publisher.expect(BasicAck)
    consumer.expect(BasicDeliver)
    consumer.content()
    fill(server, True)
    assert publisher.expect(ConnectionBlocked, 0).reason == "low on disk"
    publisher.publish(1, "q", b"during")
    late.publish(1, "q", b"late")  # the first that it publishes: it is held from then on
    assert late.expect(ConnectionBlocked, 0).reason == "low on disk"
    consumer.send(1, BasicAck(1))
    assert consumer.call(1, QueueDeclare("", exclusive=True), QueueDeclareOk).message_count == 0
    fill(server, False)
    publisher.expect(ConnectionUnblocked, 0)
    assert publisher.expect(BasicAck).delivery_tag == 2
    bodies = set()
    for _ in range(2):
        consumer.expect(BasicDeliver)
        bodies.add(consumer.content()[1])
    assert bodies == {b"during", b"late"}


@pytest.mark.parametrize("size", [10, 400_000])
def test_what_finds_no_room_is_published_when_there_is(server: InProcess, connect: Callable[[], Wire], size: int) -> None:
    wire = connect()
    wire.call(1, QueueDeclare("d", durable=True), QueueDeclareOk)
    wire.call(1, ConfirmSelect(), ConfirmSelectOk)
    fill(server, True)
    wire.publish(1, "d", b"a" * size, b"b" * size, properties=PERSISTENT)
    wire.publish(1, "d", b"c", properties=PERSISTENT)
    wire.expect(ConnectionBlocked, 0)
    wait_until(lambda: server.listener.blocked_reason, what="the alarm")
    fill(server, False)
    wire.expect(ConnectionUnblocked, 0)
    last = 0
    while last < 3:
        last = wire.expect(BasicAck).delivery_tag
    assert wire.call(1, QueueDeclare("d", passive=True), QueueDeclareOk).message_count == 3


def test_memory_above_the_limit_is_an_alarm_too(server: InProcess, connect: Callable[[], Wire]) -> None:
    wire = connect()
    wire.publish(1, "nowhere", b"x")
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1))
    assert wire.expect(ConnectionBlocked, 0).reason == "low on memory"
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1 << 60))
    wire.expect(ConnectionUnblocked, 0)
