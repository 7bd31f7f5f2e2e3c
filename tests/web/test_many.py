"""Many connections, and connections that ask for much: all are served, and none is kept behind."""

from __future__ import annotations

import asyncio
import gc
import weakref

from tests.web.http2_client import Http2Client
from tests.web.serving import Serving, echo, read_answer, serving

from headrace.testing import wait_until
from headrace.web.http1 import Http1Connection
from headrace.web.http2 import Http2Connection

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


async def clients(port: int, count: int, requests: int) -> int:
    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = 0
        for _ in range(requests):
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
            await reader.readuntil(b"\r\n\r\nPOST hello")
            done += 1
        writer.close()
        return done

    return sum(await asyncio.gather(*(one() for _ in range(count))))


def test_five_hundred_connections() -> None:
    with serving(echo) as made:
        assert asyncio.run(clients(made.port, 500, 4)) == 2000
        wait_until(lambda: made.server.open_connections == 0)
        assert made.server.connections_total == 500


def test_a_long_pipeline_does_not_keep_others_waiting() -> None:
    """The one that asks 1,000 times at once is answered in turns: another is served before it is done."""
    served: list[bytes] = []

    def handler(exchange: object) -> None:
        served.append(exchange.target)  # type: ignore[attr-defined]
        exchange.respond(200, [], b"")  # type: ignore[attr-defined]

    with serving(handler) as made, made.connect() as greedy, made.connect() as modest:
        modest.sendall(GET)
        read_answer(modest)
        greedy.sendall(GET * 1000)
        modest.sendall(GET.replace(b"/ ", b"/modest "))
        assert read_answer(modest)[0] == 200
        for _ in range(1000):
            read_answer(greedy)
    assert len(served) == 1002
    assert served.count(b"/modest") == 1


def test_connections_and_exchanges_are_not_kept_when_they_are_over() -> None:
    with serving(echo) as made:
        for connect in (one_of_http1, one_of_http2):
            connect(made)
            wait_until(lambda: made.server.open_connections == 0)

        def kept() -> int:
            gc.collect()
            return sum(isinstance(each, Http1Connection | Http2Connection) for each in gc.get_objects())

        wait_until(lambda: kept() == 0)


def test_connections_are_freed_without_the_collector() -> None:
    """Cycles would let memory grow between two collections, which a server of many short connections would feel."""
    with serving(echo) as made:
        gc.disable()
        try:
            for connect in (one_of_http1, one_of_http2):
                found = connect(made)
                wait_until(lambda found=found: found() is None)
        finally:
            gc.enable()


def one_of_http1(made: Serving) -> weakref.ref:
    with made.connect() as connection:
        connection.sendall(GET)
        read_answer(connection)
        return weakref.ref(made.server.connections()[0])


def one_of_http2(made: Serving) -> weakref.ref:
    with Http2Client(made) as client:
        client.ask(b"POST", b"/", b"hello")
        return weakref.ref(made.server.connections()[0])


def test_a_head_of_http_1_0_in_pieces_is_not_taken_for_1_1() -> None:
    with serving(echo) as made, made.connect() as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nX: HTT")
        wait_until(lambda: made.server.connections() and getattr(made.server.connections()[0], "head_bytes", 0) > 0)
        connection.sendall(b"P/1.1\r\n\r\n")
        assert read_answer(connection)[1][b"connection"] == b"close"
