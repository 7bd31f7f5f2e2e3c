"""How long the server waits for a peer, what it does then, and how it stops."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from tests.web.http2_client import Http2Client
from tests.web.serving import Noted, echo, endless, read_all, read_answer, serving

from headrace.testing import wait_until
from headrace.web.exchange import Exchange
from headrace.web.limits import Limits

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
QUICK = 0.1


def test_a_connection_that_says_nothing_is_closed() -> None:
    with serving(echo, Limits(head_s=QUICK)) as made, made.connect() as connection:
        assert read_all(connection) == b""
        wait_until(lambda: made.server.open_connections == 0)


def test_a_connection_that_begins_as_http2_and_stops_is_closed() -> None:
    with serving(echo, Limits(head_s=QUICK)) as made, made.connect() as connection:
        connection.sendall(b"PRI * HTTP")
        assert read_all(connection) == b""


def test_a_head_that_comes_too_slowly_is_answered_408() -> None:
    with serving(echo, Limits(head_s=QUICK)) as made, made.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_bytes_now_and_then_do_not_prolong_a_head() -> None:
    with serving(echo, Limits(head_s=QUICK)) as made, made.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.settimeout(0.02)
        got = b""
        for _ in range(500):
            try:
                connection.send(b"X: y\r\n")
                got += connection.recv(1000)
            except TimeoutError:
                continue
            except OSError:
                break
            if got:
                break
        assert got.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_is_idle_between_requests_is_closed() -> None:
    with serving(echo, Limits(idle_s=QUICK)) as made, made.connect() as connection:
        connection.sendall(GET)
        assert read_answer(connection)[0] == 200
        assert read_all(connection) == b""


def test_an_exchange_that_takes_its_time_is_not_idle() -> None:
    noted = Noted()
    looks: list[int] = []
    with (
        serving(noted, Limits(idle_s=QUICK, head_s=QUICK, body_s=QUICK, stalled_s=QUICK)) as made,
        made.connect() as connection,
    ):
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges)
        usual = made.server._look

        def counted() -> None:
            looks.append(1)
            usual()

        made.server._look = counted  # type: ignore[method-assign]
        wait_until(lambda: len(looks) > 20)
        made.call(lambda: noted.exchanges[0].respond(200, [], b"at last"))
        assert read_answer(connection)[2] == b"at last"


def test_a_body_that_does_not_come_is_answered_408() -> None:
    with serving(echo, Limits(body_s=QUICK)) as made, made.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: made.server.collecting_bytes == 0)


def test_a_peer_that_does_not_read_is_cut_and_costs_no_more_than_the_bound() -> None:
    noted = Noted()
    with serving(endless(noted), Limits(stalled_s=0.3)) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges and noted.exchanges[0].full)
        (open_one,) = made.server.connections()
        assert open_one.transport.get_write_buffer_size() <= 256 * 1024 + 2 * 65536
        wait_until(lambda: noted.gone)
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_a_peer_that_reads_slowly_is_not_cut() -> None:
    noted = Noted()
    with serving(endless(noted), Limits(stalled_s=2.0)) as made, made.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(GET)
        moved = []
        for _ in range(30):  # far longer than its patience would be if reading did not count
            assert connection.recv(1 << 20)
            threading.Event().wait(0.1)
            moved.append(made.server.open_connections)
        assert set(moved) == {1}


def test_writing_without_waiting_beyond_the_hard_bound_cuts() -> None:
    noted = Noted()
    wrote: list[int] = []

    def handler(exchange: Exchange) -> None:
        noted(exchange)
        exchange.start(200, [])

        def more() -> None:
            if not exchange.gone:
                wrote.append(1 << 20)
                exchange.write(b"x" * (1 << 20))
                asyncio.get_running_loop().call_soon(more)

        more()

    with serving(handler, Limits(unsent_most_bytes=4 << 20)) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.gone)
        assert sum(wrote) <= 32 << 20


def test_cut_resets_the_connection_and_does_not_call_on_gone() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges)
        made.call(noted.exchanges[0].cut)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert noted.exchanges[0].gone
        assert noted.gone == []


def test_an_administrator_sees_and_cuts_connections() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges)
        (seen,) = made.server.connections()
        assert (seen.peer, seen.protocol_name, seen.requests, seen.under_way) == (connection.getsockname(), "HTTP/1.1", 1, 1)
        assert noted.exchanges[0].local == ("127.0.0.1", made.port)
        made.call(seen.cut)
        wait_until(lambda: noted.gone)


# --- stop


def test_stop_lets_what_is_under_way_end_and_closes_the_others() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as idle, made.connect() as busy, made.connect() as fresh:
        idle.sendall(GET)
        wait_until(lambda: len(noted.exchanges) == 1)
        made.call(lambda: noted.exchanges[0].respond(200, [], b""))
        read_answer(idle)
        busy.sendall(GET)
        wait_until(lambda: len(noted.exchanges) == 2)
        stopping = threading.Thread(target=made.stop)
        stopping.start()
        assert read_all(idle) == b""
        assert read_all(fresh) == b""
        with pytest.raises(ConnectionRefusedError):
            made.connect().close()
        made.call(lambda: noted.exchanges[1].respond(200, [], b"bye"))
        status, headers, body = read_answer(busy)
        assert (status, headers[b"connection"], body) == (200, b"close", b"bye")
        stopping.join(10)
        assert not stopping.is_alive()


def test_stop_cuts_what_does_not_end_in_time() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges)
        made.stop(0.1)
        assert noted.gone == [noted.exchanges[0]]
        assert read_all(connection) == b""


# --- another protocol


class Raw(asyncio.Protocol):
    def __init__(self) -> None:
        self.got = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


UPGRADE = b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize("later", [False, True])
def test_an_upgrade_hands_the_connection_over_with_what_came_behind_the_head(later: bool) -> None:
    raw = Raw()
    noted = Noted()

    def take(exchange: Exchange) -> None:
        transport, rest = exchange.upgrade(raw)
        raw.got += rest
        transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello")

    with serving(noted if later else take) as made, made.connect() as connection:
        connection.sendall(UPGRADE + b"first ")
        if later:
            wait_until(lambda: noted.exchanges)
            connection.sendall(b"second ")
            made.call(lambda: take(noted.exchanges[0]))
        else:
            connection.sendall(b"second ")
        connection.sendall(b"third")
        wait_until(lambda: raw.got == b"first second third")
        assert connection.recv(100).endswith(b"hello")
        assert made.server.open_connections == 1
        connection.close()
        wait_until(lambda: raw.lost and made.server.open_connections == 0)


def test_an_upgrade_that_the_handler_does_not_take_is_a_request_like_others() -> None:
    with serving(echo) as made, made.connect() as connection:
        connection.sendall(
            UPGRADE.replace(b"websocket", b"h2c")
            + b"POST /p HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
            b"Content-Length: 3\r\n\r\nabc"
            b"POST /c HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\ndef\r\n0\r\n\r\n" + GET
        )
        assert [read_answer(connection)[2] for _ in range(4)] == [b"GET ", b"POST abc", b"POST def", b"GET "]


def test_only_a_request_to_upgrade_can_be_upgraded() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.exchanges)
        with pytest.raises(RuntimeError):
            made.call(lambda: noted.exchanges[0].upgrade(Raw()))


def test_stop_cuts_connections_of_other_protocols() -> None:
    raw = Raw()

    def take(exchange: Exchange) -> None:
        exchange.upgrade(raw)[0].write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")

    with serving(take) as made, made.connect() as connection:
        connection.sendall(UPGRADE)
        assert connection.recv(12) == b"HTTP/1.1 101"
        made.stop(0.1)
        wait_until(lambda: raw.lost)
        assert made.server.open_connections == 0


# --- many that don't read


def large(noted: Noted, size: int) -> object:
    def handler(exchange: Exchange) -> None:
        noted(exchange)
        exchange.respond(200, [], b"x" * size)

    return handler


def test_a_pipeline_is_not_worked_on_while_its_answers_are_not_read() -> None:
    noted = Noted()
    with serving(large(noted, 8 << 20)) as made, made.connect() as connection:
        connection.sendall(GET * 50)
        wait_until(lambda: made.server.unsent_bytes > 0)
        made.call(lambda: None)
        assert len(noted.exchanges) <= 2
        assert made.server.unsent_bytes <= 16 << 20
        for _ in range(50):
            assert len(read_answer(connection)[2]) == 8 << 20
        wait_until(lambda: made.server.unsent_bytes == 0)


@pytest.mark.parametrize("http2", [False, True])
def test_answers_that_nobody_reads_are_bounded_for_all_connections_together(http2: bool) -> None:
    noted = Noted()
    limits = Limits(unsent_total_bytes=64 << 20)
    with serving(large(noted, 8 << 20), limits) as made:
        if http2:
            clients = [Http2Client(made, auto_credit=False) for _ in range(2)]
            for client in clients:
                for _ in range(10):
                    client.head()
        else:
            clients = [made.connect() for _ in range(20)]  # type: ignore[misc]
            for client in clients:
                client.sendall(GET)  # type: ignore[attr-defined]
        wait_until(lambda: len(noted.exchanges) == 20)
        assert made.server.unsent_bytes <= 64 << 20
        assert made.server.refused_total >= 1  # the others were answered 503
        wait_until(lambda: made.server.unsent_bytes <= 64 << 20)
        for client in clients:
            (client.socket if http2 else client).close()
        wait_until(lambda: (made.server.unsent_bytes, made.server.open_connections) == (0, 0))


def test_while_too_much_waits_those_that_take_nothing_are_cut_early() -> None:
    noted = Noted()
    limits = Limits(unsent_total_bytes=1 << 20, unsent_bytes=3 << 20, crowded_s=0.2)
    with serving(endless(noted), limits) as made, made.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: noted.gone)  # and not after stalled_s, which is 30
        wait_until(lambda: made.server.open_connections == 0)


def test_while_almost_all_places_are_taken_idle_connections_make_room_sooner() -> None:
    limits = Limits(connections=4, crowded_idle_s=0.2)
    with serving(echo, limits) as made:
        opened = [made.connect() for _ in range(4)]
        for connection in opened[:2]:
            connection.sendall(GET)
            assert read_answer(connection)[0] == 200
        assert [read_all(connection) for connection in opened] == [b""] * 4  # closed, also those that said nothing
        with made.connect() as late:
            late.sendall(GET)
            assert read_answer(late)[0] == 200
