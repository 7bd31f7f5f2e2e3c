"""A publisher that never stops leaves the others their turn: when a read has filled the buffer, the connection is not read
again before the loop has been around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.amqp.in_process import InProcess
from tests.amqp.wire import Wire

from headrace.amqp.connection import AmqpConnection
from headrace.amqp.gate import Hold
from headrace.amqp.listener import READ_BYTES
from headrace.testing import wait_until

HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcess]:
    server = InProcess(tmp_path)
    yield server
    server.close()


@pytest.fixture
def connection(server: InProcess) -> Iterator[AmqpConnection]:
    wire = Wire(server.url)
    wire.log_in()
    wire.open()
    [found] = server.listener.connections
    yield found
    wire.close()


def is_read(connection: AmqpConnection) -> bool:
    assert connection._transport is not None
    return connection._transport.is_reading()


def receive(connection: AmqpConnection, size: int) -> bool:
    """As the event loop does it; whether the connection is read on."""
    connection.get_buffer(-1)[:size] = HEARTBEAT * (size // len(HEARTBEAT))
    connection.buffer_updated(size)
    return is_read(connection)


def test_whoever_fills_the_buffer_lets_the_others_be_read(server: InProcess, connection: AmqpConnection) -> None:
    for _ in range(3):
        read_on: list[bool] = []
        server.call(lambda: read_on.append(receive(connection, READ_BYTES)))  # noqa: B023
        assert read_on == [False]
        wait_until(lambda: is_read(connection), what="its next turn")


def test_whoever_has_nothing_more_is_read_on(server: InProcess, connection: AmqpConnection) -> None:
    read_on: list[bool] = []
    server.call(lambda: read_on.extend(receive(connection, READ_BYTES - 8) for _ in range(20)))
    assert all(read_on)


def test_another_reason_not_to_be_read_lasts_longer_than_the_turn(server: InProcess, connection: AmqpConnection) -> None:
    def both() -> None:
        connection.gate.hold(Hold.OUTPUT)
        receive(connection, READ_BYTES)

    server.call(both)
    server.call(lambda: None)
    assert connection.gate.holds == Hold.OUTPUT
    assert not is_read(connection)
    server.call(lambda: connection.gate.release(Hold.OUTPUT))
    assert is_read(connection)
