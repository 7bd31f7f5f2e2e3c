"""A connection that always has more to read leaves the others their turn: it is not read again before the loop has been
around. What else may keep it from being read goes on doing so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.broker import Broker
from headrace.broker.settings import Settings
from headrace.clock import SystemClock
from headrace.disk.real import RealDisk
from headrace.event_loop import make_runner
from headrace.kafka.connection import TURN_BYTES, KafkaConnection
from headrace.kafka.listener import KafkaListener
from headrace.log.embedded import EmbeddedLog

API_VERSIONS = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"  # a whole request
BEGINNING = (8 * 1024 * 1024).to_bytes(4, "big") + bytes(6)  # of a Produce of 8 MB


def with_a_connection(folder: Path, scenario: Callable[[KafkaConnection], Awaitable[None]]) -> None:
    async def run() -> None:
        log = EmbeddedLog.open(RealDisk(folder), SystemClock())
        broker = Broker(log, SystemClock(), Settings(), "cluster")
        listener = KafkaListener(broker)
        await broker.start()
        await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listener.advertised)
        writer.write(API_VERSIONS)
        await reader.readexactly(4)
        [connection] = listener.connections
        await scenario(connection)
        writer.close()
        await listener.stop()
        broker.close()
        await log.close()

    with make_runner() as runner:
        runner.run(run())


def receive(connection: KafkaConnection, data: bytes = b"", *, size: int = 0) -> None:
    """As the event loop does it: `data`, or so many zeros, or as many as the connection's buffer takes."""
    buffer = connection.get_buffer(-1)
    size = len(data) or size or len(buffer)
    buffer[:size] = data or bytes(size)
    del buffer
    connection.buffer_updated(size)


def is_read(connection: KafkaConnection) -> bool:
    assert connection._transport is not None
    return connection._transport.is_reading()


def test_whoever_fills_the_buffer_lets_the_others_be_read(tmp_path: Path) -> None:
    async def scenario(connection: KafkaConnection) -> None:
        receive(connection, BEGINNING)
        for _ in range(3):
            taken = last = 0
            while is_read(connection):
                last = len(connection.get_buffer(-1))
                taken += last
                receive(connection)
            assert taken - last < TURN_BYTES <= taken
            await asyncio.sleep(0)
            assert is_read(connection)

    with_a_connection(tmp_path, scenario)


def test_whoever_has_nothing_more_is_read_on(tmp_path: Path) -> None:
    async def scenario(connection: KafkaConnection) -> None:
        receive(connection, BEGINNING)
        for _ in range(100):
            receive(connection, size=max(1, len(connection.get_buffer(-1)) // 2))
            assert is_read(connection)

    with_a_connection(tmp_path, scenario)


def test_another_reason_not_to_be_read_lasts_longer_than_the_turn(tmp_path: Path) -> None:
    async def scenario(connection: KafkaConnection) -> None:
        receive(connection, BEGINNING)
        while is_read(connection):
            receive(connection)
        connection.stop_reading()
        await asyncio.sleep(0)
        assert not is_read(connection)
        connection.go_on()
        assert is_read(connection)
        while is_read(connection):
            receive(connection)
        connection.stop_reading()
        connection.go_on()
        assert not is_read(connection)  # it is still the others' turn
        await asyncio.sleep(0)
        assert is_read(connection)

    with_a_connection(tmp_path, scenario)
