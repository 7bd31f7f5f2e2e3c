"""A consumer that reads nothing for too long is given up, heartbeats or not, and its messages go to others, as in RabbitMQ."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.amqp.in_process import InProcess
from tests.amqp.wire import Wire

from headrace.amqp.methods import BasicConsume, BasicConsumeOk, BasicDeliver, QueueDeclare, QueueDeclareOk
from headrace.amqp.outbox import SEND_TIMEOUT_S, Outbox
from headrace.broker.queues.turns import Turns
from headrace.testing import wait_until

BODY = b"x" * 100_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    monkeypatch.setattr("headrace.amqp.outbox.SEND_TIMEOUT_S", 1.0)
    server = InProcess(tmp_path)
    yield server
    server.close()


def ready(server: InProcess) -> Wire:
    wire = Wire(server.url)
    wire.log_in()
    wire.open()
    return wire


def test_what_a_stuck_consumer_held_goes_to_another(server: InProcess) -> None:
    publisher, stuck, other = ready(server), ready(server), ready(server)
    stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    publisher.call(1, QueueDeclare("q"), QueueDeclareOk)
    stuck.call(1, BasicConsume("q", "stuck"), BasicConsumeOk)
    publisher.publish(1, "q", *[BODY] * 100)
    wait_until(lambda: len(server.listener.connections) == 2, what="the end of the stuck connection")
    other.call(1, BasicConsume("q", "other"), BasicConsumeOk)
    for _ in range(100):
        other.expect(BasicDeliver)
        assert other.content()[1] == BODY
    for wire in (publisher, stuck, other):
        wire.close()


class SlowTransport:
    """Takes what it is told to of what is written."""

    def __init__(self) -> None:
        self.waiting = 0

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> SlowTransport:
        return self

    def fileno(self) -> int:
        return -1

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.waiting += len(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting


class Ignored:
    def flush_later(self, outbox: Outbox) -> None:
        pass


def test_one_that_reads_slowly_stays_as_long_as_it_reads() -> None:
    transport, outbox = SlowTransport(), Outbox(cast(Turns, Ignored()), lambda: None)
    outbox.open(cast(asyncio.Transport, transport))
    outbox.write(bytes(1000))
    outbox.flush()
    now = 0.0
    for _ in range(10):
        transport.waiting -= 1
        now += SEND_TIMEOUT_S - 1
        assert not outbox.is_stuck(now)
    assert outbox.is_stuck(now + SEND_TIMEOUT_S + 1)
    transport.waiting = 0
    assert not outbox.is_stuck(now + 10 * SEND_TIMEOUT_S)
