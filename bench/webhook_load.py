"""A thousand endpoints of webhooks, on addresses of loopback, all on one port; one in ten can be made bad. Those are in a
process of their own, so that what they do costs the others no time.

    python -m bench.webhook_load ENDPOINTS PORT healthy|bad

Commands come as lines on standard input, and each is answered by a line of JSON:

    bad      from now on endpoints 9, 19, 29, … refuse, hang, drip, flood or fail, one after the other
    good     from now on none does
    begin    forgets what was measured
    count    how many events healthy endpoints have received since then
    report   their delays in ms, and the time of the last arrival

The value of an event is the time at which it was published, in ns, behind it a space and anything.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from headrace.event_loop import make_runner

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAILED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
FLOOD = b"HTTP/1.1 200 OK\r\n" + b"X-Flood: %b\r\n" % (b"x" * 1000) * 1000
KINDS = ("refuse", "hang", "drip", "flood", "fail")


def address_of(endpoint: int) -> str:
    return f"127.0.{endpoint // 250 + 1}.{endpoint % 250 + 1}"


def is_bad(endpoint: int) -> bool:
    return endpoint % 10 == 9


def kind_of(endpoint: int) -> str:
    return KINDS[endpoint // 10 % len(KINDS)]


class Endpoints:
    def __init__(self, count: int, port: int, those: str) -> None:
        self._mine = [endpoint for endpoint in range(count) if is_bad(endpoint) == (those == "bad")]
        self._port = port
        self._servers: dict[str, asyncio.Server] = {}
        self._number = {address_of(endpoint): endpoint for endpoint in self._mine}
        self._open: set[Connection] = set()
        self.bad = False
        self.delays_ms: list[float] = []
        self.last = 0.0

    async def start(self) -> None:
        for kind in ("good", *KINDS):
            await self._listen(kind)

    async def _listen(self, kind: str) -> None:
        hosts = [address_of(one) for one in self._mine if (kind_of(one) if is_bad(one) else "good") == kind]
        if hosts:
            loop = asyncio.get_running_loop()
            self._servers[kind] = await loop.create_server(lambda: Connection(self), hosts, self._port, backlog=1000)

    async def make_bad(self, bad: bool) -> None:
        self.bad = bad
        refusing = self._servers.pop("refuse", None)
        if refusing is not None:
            refusing.close()
        if not bad:
            await self._listen("refuse")
        for connection in [one for one in self._open if is_bad(one.endpoint)]:
            connection.cut()

    def opened(self, connection: Connection, host: str) -> int:
        self._open.add(connection)
        return self._number[host]

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)

    def report(self) -> dict[str, object]:
        return {"delays_ms": self.delays_ms, "last": self.last}


class Connection(asyncio.Protocol):
    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._dripping: asyncio.TimerHandle | None = None
        self.endpoint = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        self.endpoint = self._endpoints.opened(self, transport.get_extra_info("sockname")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        self._endpoints.closed(self)
        if self._dripping is not None:
            self._dripping.cancel()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).lower()
            place = head.index(b"content-length:") + 15
            size = int(head[place:].split(b"\r\n", 1)[0])
            if len(self._buffer) < end + 4 + size:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + size])
            del self._buffer[: end + 4 + size]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        if self._endpoints.bad and is_bad(self.endpoint):
            answers: dict[str, Callable[[], object]] = {
                "refuse": self._transport.abort,
                "hang": lambda: None,
                "drip": lambda: self._drip(b"HTTP/1.1 200 OK\r\nX-Drip: "),
                "flood": lambda: self._transport.write(FLOOD) if self._transport else None,
                "fail": lambda: self._transport.write(FAILED) if self._transport else None,
            }
            answers[kind_of(self.endpoint)]()
            return
        now_ns = time.time_ns()
        self._transport.write(OK)
        if not is_bad(self.endpoint):
            self._endpoints.delays_ms.append((now_ns - int(body.split(b" ", 1)[0])) / 1e6)
            self._endpoints.last = now_ns / 1e9

    def _drip(self, piece: bytes = b"x") -> None:
        assert self._transport is not None
        self._transport.write(piece)
        self._dripping = asyncio.get_running_loop().call_later(0.5, self._drip)


async def main(count: int, port: int, those: str) -> None:
    endpoints = Endpoints(count, port, those)
    await endpoints.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say({"ready": True})
    while line := (await reader.readline()).decode().strip():
        if line in ("bad", "good"):
            await endpoints.make_bad(line == "bad")
            say({})
        elif line == "begin":
            endpoints.delays_ms.clear()
            say({})
        elif line == "count":
            say({"count": len(endpoints.delays_ms)})
        else:
            say(endpoints.report())


def say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with make_runner() as runner:
        runner.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
