"""Bytes that are no request, or could be read in two ways, are answered 4xx and the connection is closed; nothing behind them
is served."""

from __future__ import annotations

import pytest
from tests.web.serving import Noted, echo, read_all, serving

from headrace.testing import wait_until
from headrace.web.limits import Limits

BEHIND = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"

REFUSED = {
    "length and chunks": (400, HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunks and length": (400, HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
    "the same length twice": (400, HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "a list of lengths": (400, HEAD + b"Content-Length: 3, 3\r\n\r\nabc"),
    "a signed length": (400, HEAD + b"Content-Length: +3\r\n\r\nabc"),
    "a negative length": (400, HEAD + b"Content-Length: -3\r\n\r\nabc"),
    "a hexadecimal length": (400, HEAD + b"Content-Length: 0x3\r\n\r\nabc"),
    "an empty length": (400, HEAD + b"Content-Length:\r\n\r\nabc"),
    "a length that overflows": (400, HEAD + b"Content-Length: 18446744073709551619\r\n\r\nabc"),
    "a length of a zettabyte": (400, HEAD + b"Content-Length: 1000000000000000000\r\n\r\nabc"),
    "a length in other digits": (400, HEAD + "Content-Length: ٣\r\n\r\nabc".encode()),
    "chunked is not the last coding": (400, HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    "chunked twice": (400, HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked with a tail": (400, HEAD + b"Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"),
    "a coding behind a vertical tab": (400, HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "gzip before chunks": (501, HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunks in HTTP/1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a space before the colon": (400, HEAD + b"Content-Length : 3\r\n\r\nabc"),
    "a folded header": (400, HEAD + b"X: a\r\n b\r\n\r\n"),
    "a folded length": (400, HEAD + b"Content-Length:\r\n 3\r\n\r\nabc"),
    "a header that begins with a space": (400, b"POST / HTTP/1.1\r\n Host: h\r\n\r\n"),
    "no name": (400, HEAD + b": x\r\n\r\n"),
    "no colon": (400, HEAD + b"nothing\r\n\r\n"),
    "NUL in a value": (400, HEAD + b"X: a\0b\r\n\r\n"),
    "NUL in a name": (400, HEAD + b"X\0: a\r\n\r\n"),
    "a bare CR in a value": (400, HEAD + b"X: a\rb\r\n\r\n"),
    "bare LF": (400, b"POST / HTTP/1.1\nHost: h\n\n"),
    "LF behind a header": (400, HEAD + b"X: a\nContent-Length: 3\r\n\r\nabc"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "a control character in the target": (400, b"GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n"),
    "spaces in the target": (400, b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a target that is no path": (400, b"GET ftp://a/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a target with a password": (400, b"GET http://a:b@c/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a star that is not for OPTIONS": (400, b"GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
    "CONNECT": (400, b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"),
    "HTTP/2.0 without its preface": (505, b"GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
    "HTTP/0.9": (505, b"GET / HTTP/0.9\r\nHost: h\r\n\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\nHost: h\r\n\r\n"),
    "HTTP/3.0": (400, b"GET / HTTP/3.0\r\nHost: h\r\n\r\n"),
    "no version": (505, b"GET /\r\nHost: h\r\n\r\n"),
    "a method we don't know": (400, b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n"),
    "TLS": (400, bytes.fromhex("16030100c8010000c40303") + b"\0" * 100),
    "almost the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
    "chunk size that overflows": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n"),
    "a chunk longer than it says": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"),
    "a chunk size that is none": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n"),
    "spaces behind a chunk size": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"),
    "LF behind a chunk size": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"),
    "a length among the trailers": (400, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 40\r\n\r\n"),
    "a head that is too long": (431, HEAD + b"X: " + b"x" * 70_000 + b"\r\n\r\n"),
    "a target that is too long": (431, b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
    "too many headers": (431, HEAD + b"X: y\r\n" * 300 + b"\r\n"),
    "empty lines without end": (431, b"\r\n" * 40_000),
    "trailers that are too long": (431, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"),
    "a trailer that is too long": (431, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 80_000),
    "an extension of a chunk that is too long": (431, HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;" + b"x" * 800_000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_and_what_is_behind_it_not_served(name: str) -> None:
    status, request = REFUSED[name]
    noted = Noted()

    def handler(exchange: object) -> None:
        noted(exchange)  # type: ignore[arg-type]
        echo(exchange)  # type: ignore[arg-type]

    with serving(handler) as made:
        got = made.ask(request + BEHIND)
        assert got.startswith(b"HTTP/1.1 %d " % status), got
        assert b"connection: close\r\n" in got
        assert got.count(b"HTTP/1.1") == 1
        assert [each.target for each in noted.exchanges if each.target == b"/smuggled"] == []
        assert made.server.refused_total == 1
        wait_until(lambda: made.server.open_connections == 0)
        assert made.server.collecting_bytes == 0


def test_byte_by_byte_it_is_refused_just_the_same() -> None:
    for name in ("length and chunks", "a folded header", "a chunk longer than it says", "bare LF"):
        status, request = REFUSED[name]
        with serving(echo) as made, made.connect() as connection:
            try:
                for byte in request + BEHIND:
                    connection.send(bytes((byte,)))
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert read_all(connection).startswith(b"HTTP/1.1 %d " % status)


def test_a_chunk_that_is_broken_after_the_answer_began_cuts_the_connection() -> None:
    noted = Noted()
    with serving(noted) as made, made.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        wait_until(lambda: noted.exchanges)
        made.call(lambda: noted.exchanges[0].start(200, []))
        connection.sendall(b"nonsense\r\n")
        got = read_all(connection)
        assert got.count(b"HTTP/1.1") == 1
        assert not got.endswith(b"0\r\n\r\n")
        wait_until(lambda: noted.gone)


def test_refusals_are_logged_within_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    with serving(echo, look_s=60.0) as made:
        for _ in range(60):
            made.ask(b"nonsense\r\n\r\n")
        assert made.server.refused_total == 60
    said = [record for record in caplog.records if record.name == "headrace.web"]
    assert len(said) == 20
    assert "Invalid method" in said[0].getMessage()


def test_connections_beyond_the_bound_are_answered_503_and_closed() -> None:
    with serving(echo, Limits(connections=2)) as made, made.connect() as first, made.connect() as second:
        for connection in (first, second):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        with made.connect() as third:
            assert read_all(third).startswith(b"HTTP/1.1 503 ")
        assert (made.server.open_connections, made.server.turned_away_total) == (2, 1)
        first.close()
        wait_until(lambda: made.server.open_connections == 1)
        with made.connect() as fourth:
            fourth.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert fourth.recv(12) == b"HTTP/1.1 200"
