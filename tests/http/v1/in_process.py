"""A server in the event loop of the test, for tests that hold its inside still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.broker import Broker
from headrace.server import Server, ServerOptions


@asynccontextmanager
async def server_here(folder: Path) -> AsyncIterator[tuple[Server, Broker]]:
    anywhere = ("127.0.0.1", 0)
    server = Server(ServerOptions(folder, kafka=anywhere, amqp=anywhere, http=anywhere, kinesis=anywhere))
    await server.start()
    assert server._broker is not None
    try:
        yield server, server._broker
    finally:
        await server.stop()
