"""Publishers wait while the server is low on disk or memory: they are told, not read, and lose nothing. Others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.amqp.in_process import InProcess
from tests.amqp.wire import PERSISTENT, Wire

from headrace.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.log.errors import DiskFull
from headrace.testing import wait_until


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
    publisher.publish(1, "q", b"during")
    assert publisher.expect(ConnectionBlocked, 0).reason == "low on disk"
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
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1))
    wait_until(lambda: server.listener.blocked_reason, what="the alarm")
    wire.publish(1, "nowhere", b"x")
    assert wire.expect(ConnectionBlocked, 0).reason == "low on memory"
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1 << 60))
    wire.expect(ConnectionUnblocked, 0)


def test_who_has_published_and_does_not_now_goes_on(server: InProcess, connect: Callable[[], Wire]) -> None:
    wire = connect()
    queue = wire.call(1, QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    wire.publish(1, queue, b"before")
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1))
    wait_until(lambda: server.listener.blocked_reason, what="the alarm")
    wire.call(1, BasicGet(queue, True), BasicGetOk)
    wire.content()
    wire.publish(1, queue, b"during")
    wire.expect(ConnectionBlocked, 0)


def test_the_first_message_of_a_publisher_waits_too(server: InProcess, connect: Callable[[], Wire]) -> None:
    publisher, other = connect(), connect()
    other.call(1, QueueDeclare("q"), QueueDeclareOk)
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1))
    wait_until(lambda: server.listener.blocked_reason, what="the alarm")
    publisher.publish(1, "q", b"first", b"second")
    assert publisher.expect(ConnectionBlocked, 0).reason == "low on memory"
    assert other.call(1, QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0
    server.call(lambda: setattr(server.listener._alarms, "memory_limit_bytes", 1 << 60))
    publisher.expect(ConnectionUnblocked, 0)
    wait_until(lambda: other.call(1, QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 2, what="both messages")
