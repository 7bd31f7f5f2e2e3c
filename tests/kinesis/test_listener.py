"""The listener before and around its web server."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from headrace.kinesis import listener as module
from headrace.kinesis.listener import KinesisListener


@pytest.fixture
def broker():
    return SimpleNamespace(traffic={})


def test_who_waits_is_told_when_the_front_end_can_not_be_loaded(broker, monkeypatch):
    def fail(name):
        raise ImportError(name)

    async def run():
        listener = KinesisListener(broker)
        address = listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*address)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.readexactly(1), 10)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        await listener.stop()

    monkeypatch.setattr(module, "import_module", fail)
    asyncio.run(run())


def test_a_listener_that_nobody_connected_to_stops(broker):
    async def run():
        listener = KinesisListener(broker)
        address = listener.start("127.0.0.1", 0)
        await listener.stop()
        with socket.socket() as again:
            again.bind(address)

    asyncio.run(run())
    assert (broker.traffic["kinesis"].connections, broker.traffic["kinesis"].connections_total) == (0, 0)
