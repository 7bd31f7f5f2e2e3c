"""HTTP/1.1 as RFC 9110 and 9112 have it, byte for byte over sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from tests.web.serving import Noted, Serving, echo, fill, read_all, read_answer, serving

from headrace.testing import wait_until
from headrace.web.exchange import Exchange
from headrace.web.limits import Limits

GET = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture(scope="module")
def echoing() -> Iterator[Serving]:
    with serving(echo) as made:
        yield made


def post(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"POST /p HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


def chunked(*lines: bytes) -> bytes:
    return b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"\r\n".join(lines)


def test_a_connection_serves_one_request_after_the_other(echoing: Serving) -> None:
    with echoing.connect() as connection:
        for number in range(5):
            connection.sendall(post(b"%d" % number))
            status, headers, body = read_answer(connection)
            assert (status, body, headers[b"x-target"]) == (200, b"POST %d" % number, b"/p")
            assert b"connection" not in headers
            assert headers[b"date"].endswith(b" gmt")


def test_connection_close_is_answered_and_obeyed(echoing: Serving) -> None:
    got = echoing.ask(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close\r\n" in got


def test_http_1_0_closes_unless_it_asks_to_be_kept(echoing: Serving) -> None:
    assert b"connection: close" in echoing.ask(b"GET / HTTP/1.0\r\n\r\n")
    with echoing.connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert read_answer(connection)[1][b"connection"] == b"keep-alive"


def test_a_chunked_body_is_joined_and_its_trailers_and_extensions_are_dropped(echoing: Serving) -> None:
    with echoing.connect() as connection:
        connection.sendall(chunked(b"3;x=y", b"abc", b"A", b"0123456789", b"0", b"Trailer: t", b"", b"") + GET)
        assert read_answer(connection)[2] == b"POST abc0123456789"
        assert read_answer(connection)[2] == b"GET "


def test_a_chunked_body_whose_end_comes_byte_by_byte_does_not_swallow_the_next_request(echoing: Serving) -> None:
    with echoing.connect() as connection:
        for byte in chunked(b"4", b"\r\n\r\n", b"0", b"", b""):
            connection.send(bytes((byte,)))
            time.sleep(0)
        connection.sendall(GET)
        assert read_answer(connection)[2] == b"POST \r\n\r\n"
        assert read_answer(connection)[2] == b"GET "


def test_a_pipeline_is_answered_in_order(echoing: Serving) -> None:
    requests = [post(b"%d" % n) if n % 3 else chunked(b"1", b"%x" % (n % 16), b"0", b"", b"") for n in range(100)]
    with echoing.connect() as connection:
        connection.sendall(b"".join(requests))
        bodies = [read_answer(connection)[2] for _ in requests]
    assert bodies == [b"POST %d" % n if n % 3 else b"POST %x" % (n % 16) for n in range(100)]


def test_a_pipeline_is_worked_on_one_at_a_time_and_not_read_meanwhile() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        assert fill(connection, GET * 1000) < 100 * 1024 * 1024  # it does not read on
        assert len(noted.exchanges) == 1
        (open_one,) = made.server.connections()
        assert len(open_one.rest) <= 1024 * 1024
        made.call(lambda: noted.exchanges[0].respond(200, [], b"first"))
        assert read_answer(connection)[2] == b"first"
        wait_until(lambda: len(noted.exchanges) == 2)
        assert noted.exchanges[1].target == b"/a?b=c"


def test_expect_100_continue_is_answered_when_the_handler_wants_the_body(echoing: Serving) -> None:
    with echoing.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert read_answer(connection)[0] == 100
        connection.sendall(b"abc")
        assert read_answer(connection)[2] == b"POST abc"
        connection.sendall(post(b"x", b"Expect: 100-continue"))  # the body is there already: no 100
        assert read_answer(connection)[2] == b"POST x"


def test_a_handler_that_refuses_at_the_head_answers_without_100_and_closes() -> None:
    with serving(lambda exchange: exchange.respond(401, [], b"no")) as made:
        got = made.ask(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    assert b"connection: close\r\n" in got


def test_an_expectation_we_do_not_know_is_417(echoing: Serving) -> None:
    assert echoing.ask(post(b"x", b"Expect: tea")).startswith(b"HTTP/1.1 417 ")


@pytest.mark.parametrize("status", [204, 304])
def test_204_and_304_have_no_body_and_the_next_answer_is_found(status: int) -> None:
    with serving(lambda exchange: exchange.respond(status, [], b"not sent")) as made, made.connect() as connection:
        connection.sendall(GET + GET + b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        got = read_all(connection)
    assert got.count(b"HTTP/1.1 %d " % status) == 3
    assert b"not sent" not in got
    assert (b"content-length" in got) == (status == 304)


def test_head_tells_the_length_and_sends_no_body(echoing: Serving) -> None:
    with echoing.connect() as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + GET)
        assert read_answer(connection, head=True)[1][b"content-length"] == b"5"
        assert read_answer(connection)[2] == b"GET "


def streamed(headers: list[tuple[bytes, bytes]]) -> object:
    def handler(exchange: Exchange) -> None:
        exchange.start(200, headers)
        exchange.write(b"hello ")
        exchange.write(b"")
        exchange.write(b"world")
        exchange.end()

    return handler


def test_a_streamed_answer_is_chunked() -> None:
    with serving(streamed([])) as made, made.connect() as connection:
        connection.sendall(GET + b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        got = read_all(connection)
    assert got.count(b"6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n") == 2  # and none for HEAD
    assert got.count(b"transfer-encoding: chunked") == 3


def test_a_streamed_answer_with_a_length_is_sent_as_it_is() -> None:
    with serving(streamed([(b"content-length", b"11")])) as made, made.connect() as connection:
        connection.sendall(GET + GET)
        assert read_answer(connection)[2] == b"hello world"
        assert read_answer(connection)[2] == b"hello world"


def test_a_streamed_answer_to_http_1_0_ends_with_the_connection() -> None:
    with serving(streamed([])) as made:
        head, _, body = made.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").partition(b"\r\n\r\n")
    assert body == b"hello world"
    assert b"connection: close" in head
    assert b"chunked" not in head


@pytest.mark.parametrize("length", [b"3", b"30"])
def test_a_body_that_is_not_as_long_as_announced_ends_the_connection(length: bytes) -> None:
    with serving(streamed([(b"content-length", length)])) as made:
        got = made.ask(GET)
    assert len(got.partition(b"\r\n\r\n")[2]) in (0, 11)


def test_the_absolute_form_of_a_target_gives_the_path_and_the_host() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(b"GET http://other:81/x?y HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_until(lambda: noted.exchanges)
        made.call(lambda: noted.exchanges[0].respond(200, [], b""))
        read_answer(connection)
        connection.sendall(b"GET HTTP://other?y HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_until(lambda: len(noted.exchanges) == 2)
    assert [(each.target, each.header(b"host")) for each in noted.exchanges] == [(b"/x?y", b"other:81"), (b"/?y", b"other")]


def test_options_of_the_server_has_a_star(echoing: Serving) -> None:
    with echoing.connect() as connection:
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(connection)[1][b"x-target"] == b"*"


def test_a_peer_that_has_closed_its_side_gets_its_answer() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(GET)
        connection.shutdown(socket.SHUT_WR)
        wait_until(lambda: noted.exchanges)
        assert read_answer(connection)[0] == 100  # which asks whether it is still there
        made.call(lambda: noted.exchanges[0].respond(200, [], b"late"))
        assert read_answer(connection)[2] == b"late"
        assert connection.recv(1) == b""
    assert noted.gone == []


def test_a_peer_that_is_gone_is_noticed_before_the_answer() -> None:
    noted = Noted()
    with serving(noted) as made:
        with made.connect() as connection:
            connection.sendall(GET)
            wait_until(lambda: noted.exchanges)
        wait_until(lambda: noted.gone)
        exchange = noted.exchanges[0]
        assert exchange.gone
        made.call(lambda: exchange.respond(200, [], b"nobody"))  # ignored
        wait_until(lambda: made.server.open_connections == 0)


def test_a_peer_that_goes_in_the_middle_of_a_body_never_completes_it() -> None:
    noted = Noted()
    bodies: list[bytes] = []

    def handler(exchange: Exchange) -> None:
        noted(exchange)
        exchange.collect(1000, bodies.append, lambda: None)

    with serving(handler) as made:
        with made.connect() as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
            wait_until(lambda: noted.exchanges)
        wait_until(lambda: noted.gone)
        assert (bodies, made.server.collecting_bytes) == ([], 0)


def test_an_answer_before_the_body_came_leaves_the_connection_usable_if_the_rest_is_small() -> None:
    with serving(lambda exchange: exchange.respond(200, [], b"early")) as made, made.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
        assert read_answer(connection)[2] == b"early"
        connection.sendall(b"x" * 1000 + chunked(b"3"))
        assert read_answer(connection)[2] == b"early"
        connection.sendall(b"\r\nabc\r\n0\r\n\r\n" + GET)
        assert read_answer(connection)[2] == b"early"


def test_an_answer_before_a_large_body_closes_and_still_arrives() -> None:
    body = b"x" * (4 * 1024 * 1024)
    with serving(lambda exchange: exchange.respond(413, [], b"no")) as made, made.connect() as connection:
        connection.sendall(post(body))  # all of it is read and thrown away, so this does not fail
        status, headers, said = read_answer(connection)
        assert (status, headers[b"connection"], said) == (413, b"close", b"no")
        assert connection.recv(1) == b""


def test_large_bodies_go_both_ways(echoing: Serving) -> None:
    body = bytes(range(256)) * (32 * 1024)
    with echoing.connect() as connection:
        connection.sendall(post(body))
        assert read_answer(connection)[2] == b"POST " + body
        connection.sendall(chunked(*(line for _ in range(128) for line in (b"10000", body[:65536])), b"0", b"", b""))
        assert read_answer(connection)[2] == b"POST " + body[:65536] * 128


def test_a_body_over_the_limit_is_told_at_its_head_or_as_soon_as_it_is_known(echoing: Serving) -> None:
    for request in (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n",
        chunked(*(line for _ in range(257) for line in (b"10000", b"x" * 65536))),
    ):
        with echoing.connect() as connection:
            connection.sendall(request)
            assert read_answer(connection)[0] == 413


def test_a_handler_that_raises_is_answered_500() -> None:
    def handler(exchange: Exchange) -> None:
        raise ValueError("no")

    with serving(handler) as made:
        got = made.ask(GET)
    assert got.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close" in got


def test_a_header_can_not_split_an_answer() -> None:
    errors: list[str] = []

    def handler(exchange: Exchange) -> None:
        for name, value in ((b"a", b"b\r\nset-cookie: x"), (b"a\n", b"b"), (b"a", b"\0")):
            try:
                exchange.respond(200, [(name, value)], b"")
            except ValueError as error:
                errors.append(str(error))
        exchange.respond(200, [], b"clean")

    with serving(handler) as made, made.connect() as connection:
        connection.sendall(GET)
        assert read_answer(connection)[2] == b"clean"
    assert errors == ["a header holds CR, LF or NUL"] * 3


def test_receive_gives_pieces_and_stops_reading_while_nobody_takes_them() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\n")
        sent = fill(connection, b"x" * 65536)
        assert sent < 16 * 1024 * 1024
        wait_until(lambda: noted.exchanges)
        exchange = noted.exchanges[0]
        assert exchange._body_bytes <= 2 * 1024 * 1024

        async def all_of_it() -> int:
            total = 0
            while piece := await exchange.receive():
                total += len(piece)
            exchange.respond(200, [], b"%d" % total)
            return total

        connection.settimeout(20)
        made.loop.call_soon_threadsafe(lambda: made.loop.create_task(all_of_it()))
        for _ in range((50_000_000 - sent) // 65536):
            connection.sendall(b"x" * 65536)
        connection.sendall(b"x" * ((50_000_000 - sent) % 65536))
        assert read_answer(connection)[2] == b"50000000"


def test_limits_of_unfinished_bodies_hold_for_all_connections_together() -> None:
    limits = Limits(collecting_bytes=1_000_000)
    with serving(echo, limits) as made, made.connect() as first, made.connect() as second:
        first.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" + b"x" * 800_000)
        wait_until(lambda: made.server.collecting_bytes == 800_000)
        second.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" + b"x" * 800_000)
        assert read_answer(second)[0] == 503
        first.sendall(b"x" * 100_000)
        assert read_answer(first)[0] == 200
        assert made.server.collecting_bytes == 0
