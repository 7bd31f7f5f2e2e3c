"""Clients that go at any moment, handlers that answer in every way: at the end nothing is left, each exchange ended once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from dataclasses import dataclass, field

import pytest
from hpack import Encoder
from tests.web.http2_client import PREFACE, frame
from tests.web.serving import serving

from headrace.testing import wait_until
from headrace.web.exchange import Exchange
from headrace.web.limits import Limits

CLIENTS = 150
FIELDS = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"h")]


@dataclass
class Ended:
    """How often each exchange came to its end, one way or the other."""

    random: random.Random
    begun: int = 0
    answered: int = 0
    gone: int = 0
    open: set[Exchange] = field(default_factory=set)

    def handler(self, exchange: Exchange) -> None:
        self.begun += 1
        self.open.add(exchange)
        exchange.on_gone = lambda: self.went(exchange)
        way = self.random.choice(
            (self.at_once, self.collected, self.later, self.streamed, self.streamed, self.cut, self.raises)
        )
        way(exchange)

    def went(self, exchange: Exchange) -> None:
        self.gone += 1
        self.open.remove(exchange)

    def end(self, exchange: Exchange) -> None:
        if not exchange.gone:
            self.answered += 1
            self.open.remove(exchange)

    def at_once(self, exchange: Exchange) -> None:
        self.end(exchange)
        exchange.respond(200, [], b"x" * self.random.choice((0, 10, 100_000)))

    def collected(self, exchange: Exchange) -> None:
        exchange.collect(50_000, lambda body: self.at_once(exchange), lambda: self.at_once(exchange))

    def later(self, exchange: Exchange) -> None:
        asyncio.get_running_loop().call_later(0.01, self.at_once, exchange)

    def streamed(self, exchange: Exchange) -> None:
        asyncio.get_running_loop().create_task(self.stream(exchange))

    async def stream(self, exchange: Exchange) -> None:
        with contextlib.suppress(ConnectionError):
            if self.random.random() < 0.5:
                while await exchange.receive():
                    pass
            exchange.start(200, [])
            for _ in range(self.random.choice((0, 3, 30))):
                exchange.write(b"x" * 30_000)
                await exchange.drained()
            self.end(exchange)
            exchange.end()

    def cut(self, exchange: Exchange) -> None:
        self.end(exchange)
        exchange.cut()

    def raises(self, exchange: Exchange) -> None:
        self.end(exchange)
        raise ValueError("on purpose")


def said_by_http1(dice: random.Random) -> bytes:
    requests = []
    for _ in range(dice.randrange(1, 6)):
        body = b"b" * dice.choice((0, 5, 70_000))
        if dice.random() < 0.5:
            requests.append(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        else:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            requests.append(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n")
    return b"".join(requests)


def said_by_http2(dice: random.Random) -> bytes:
    encoder = Encoder()
    said = [PREFACE, frame(4, 0, 0, struct.pack(">HI", 4, dice.choice((10, 65_535, 1 << 20))))]
    for stream in range(1, 2 * dice.randrange(1, 8), 2):
        said += [frame(1, 4, stream, encoder.encode(FIELDS)), frame(0, 1, stream, b"b" * dice.choice((0, 5, 16_000)))]
        if dice.random() < 0.2:
            said.append(frame(3, 0, stream, struct.pack(">I", 8)))
        if dice.random() < 0.2:
            said.append(frame(8, 0, 0, struct.pack(">I", 1 << 20)))
    return b"".join(said)


async def client(port: int, dice: random.Random) -> None:
    data = said_by_http1(dice) if dice.random() < 0.5 else said_by_http2(dice)
    with contextlib.suppress(OSError, TimeoutError):  # it may be cut at any moment too
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for _ in range(dice.randrange(1, 5)):
                cut = dice.randrange(len(data) + 1)
                writer.write(data[:cut])
                data = data[cut:]
                await asyncio.sleep(dice.random() * 0.02)
            if dice.random() < 0.7:
                writer.write(data)
            if dice.random() < 0.2:
                writer.write_eof()
            async with asyncio.timeout(dice.choice((0.001, 0.05, 0.3))):
                while await reader.read(dice.choice((100, 100_000))):
                    pass
        finally:
            if dice.random() < 0.5:
                writer.transport.abort()
            writer.close()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_of_clients_that_go_at_any_moment(seed: int) -> None:
    dice = random.Random(seed)
    ended = Ended(random.Random(seed))

    async def all_of_them(port: int) -> None:
        await asyncio.gather(*(client(port, random.Random(dice.random())) for _ in range(CLIENTS)))

    with serving(ended.handler, Limits(head_s=1.0, idle_s=1.0, body_s=1.0, stalled_s=1.0)) as made:
        asyncio.run(all_of_them(made.port))
        wait_until(lambda: made.server.open_connections == 0)
        wait_until(lambda: not ended.open)
        assert ended.begun > CLIENTS / 2
        assert ended.answered + ended.gone == ended.begun
        assert ended.answered > 0
        assert ended.gone > 0
        assert (made.server.collecting_bytes, made.server.queued_bytes, made.server.unsent_bytes) == (0, 0, 0)
