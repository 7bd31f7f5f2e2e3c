"""A socket that is served from the first connection on."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from tests.web.serving import echo

from headrace.web.first_connection import FirstConnection
from headrace.web.server import WebServer

logger = logging.getLogger("headrace.web")


def test_it_is_opened_once_and_who_waited_is_served() -> None:
    opened: list[WebServer] = []

    async def opening() -> WebServer:
        await asyncio.sleep(0)  # as an import on a thread
        opened.append(WebServer(echo))
        return opened[-1]

    async def ask(address: tuple[str, int]) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    async def run() -> list[bytes]:
        first = FirstConnection(opening, "echo", logger)
        address = first.listen("127.0.0.1", 0, {})
        assert not opened
        answers = await asyncio.gather(*(ask(address) for _ in range(5)))
        await first.settle()
        await opened[0].stop(1)
        first.close()
        return answers

    for answer in asyncio.run(run()):
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"POST hello")
    assert len(opened) == 1


def test_who_waits_is_told_when_it_can_not_be_opened(caplog: pytest.LogCaptureFixture) -> None:
    async def opening() -> WebServer:
        raise ImportError("no such thing")

    async def run() -> None:
        first = FirstConnection(opening, "echo", logger)
        address = first.listen("127.0.0.1", 0, {})
        reader, writer = await asyncio.open_connection(*address)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.readexactly(1), 10)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        await first.settle()
        first.close()

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == ["the echo front end failed; the other front ends go on"]


def test_one_that_nobody_connected_to_is_closed() -> None:
    async def opening() -> WebServer:
        raise AssertionError("nobody asked")

    async def run() -> None:
        first = FirstConnection(opening, "echo", logger)
        address = first.listen("127.0.0.1", 0, {})
        await first.settle()
        first.close()
        with socket.socket() as again:
            again.bind(address)

    asyncio.run(run())
