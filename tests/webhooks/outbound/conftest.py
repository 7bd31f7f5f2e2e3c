"""A resolver with answers of its own, a network that is watched, and endpoints on loopback that answer what they are told."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from headrace.webhooks.outbound import Outbound
from headrace.webhooks.outbound.network import SocketNetwork, Stream, Tls
from headrace.webhooks.outbound.url import Address

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PUBLIC = "93.184.216.34"


@pytest.fixture(params=["asyncio", "uvloop"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both event loops, one after the other: the server runs on uvloop where there is one."""
    if request.param == "uvloop":
        asyncio.set_event_loop_policy(pytest.importorskip("uvloop").EventLoopPolicy())
    yield
    asyncio.set_event_loop_policy(None)


class Names:
    """Each name has a list of answers, given one after the other; the last one stays."""

    def __init__(self, **answers: str) -> None:
        self._answers: dict[str, list[list[Address]]] = {}
        self.asked: list[str] = []
        for name, answer in answers.items():
            self.set(name.replace("_", "."), answer)

    def set(self, name: str, *answers: str) -> Names:
        self._answers[name] = [[ipaddress.ip_address(one) for one in answer.split()] for answer in answers]
        return self

    async def __call__(self, name: str) -> Sequence[Address]:
        self.asked.append(name)
        answers = self._answers[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@dataclass
class Watched:
    """Remembers who was connected to. Never connects anywhere but to `port` on loopback; to nobody at all without one."""

    port: int | None = None
    connected: list[tuple[str, int, str | None]] = field(default_factory=list)

    async def connect(self, address: Address, port: int, tls: Tls | None) -> Stream:
        self.connected.append((str(address), port, tls.name if tls else None))
        assert self.port is not None, f"a packet would have gone to {address}"
        return await SocketNetwork().connect(ipaddress.ip_address("127.0.0.1"), self.port, tls)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def endpoint(serve: Serve | bytes = OK, **options: object) -> AsyncIterator[int]:
    """A server on loopback; gives its port. Bytes are the answer to every request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(serve, bytes)
        while True:
            await request_of(reader)
            writer.write(serve)
            await writer.drain()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await (answer if isinstance(serve, bytes) else serve)(reader, writer)
        writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0, **options)  # type: ignore[arg-type]
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return head, await reader.readexactly(size)


def local(**options: object) -> Outbound:
    """A client that may speak to loopback."""
    return Outbound(allow=["127.0.0.0/8"], **options)  # type: ignore[arg-type]
