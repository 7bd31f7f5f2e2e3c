"""Frames that break RFC 9113, and floods of those that don't: the stream or the connection ends with the code the RFC names."""

from __future__ import annotations

import struct

import pytest
from hpack import Encoder
from tests.web.http2_client import Http2Client, frame, goaway_code, raw_connection, read_frames
from tests.web.serving import Noted, echo, serving

from headrace.testing import wait_until
from headrace.web.limits import Limits

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 1, 3, 5, 6
COMPRESSION_ERROR, CALM = 9, 11

FIELDS = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"h")]
HEAD = Encoder().encode(FIELDS)
OPEN = frame(1, 4, 1, HEAD)  # without END_STREAM
WHOLE = frame(1, 5, 1, HEAD)


def number(value: int) -> bytes:
    return struct.pack(">I", value)


CONNECTION_ERRORS = {
    "a frame that is too long": (FRAME_SIZE_ERROR, frame(0, 0, 1, b"")[:0] + b"\xff\xff\xff\0\0\0\0\0\1"),
    "PING of 7 bytes": (FRAME_SIZE_ERROR, frame(6, 0, 0, b"1234567")),
    "PING of a stream": (FRAME_SIZE_ERROR, frame(6, 0, 1, b"12345678")),
    "SETTINGS of 5 bytes": (FRAME_SIZE_ERROR, frame(4, 0, 0, b"12345")),
    "SETTINGS of a stream": (FRAME_SIZE_ERROR, frame(4, 0, 1)),
    "an acknowledgement with settings": (FRAME_SIZE_ERROR, frame(4, 1, 0, b"123456")),
    "a window of 2^31": (FLOW_CONTROL_ERROR, frame(4, 0, 0, struct.pack(">HI", 4, 2**31))),
    "ENABLE_PUSH of 2": (PROTOCOL_ERROR, frame(4, 0, 0, struct.pack(">HI", 2, 2))),
    "MAX_FRAME_SIZE of 100": (PROTOCOL_ERROR, frame(4, 0, 0, struct.pack(">HI", 5, 100))),
    "RST_STREAM of 3 bytes": (FRAME_SIZE_ERROR, OPEN + frame(3, 0, 1, b"123")),
    "RST_STREAM of an idle stream": (PROTOCOL_ERROR, frame(3, 0, 1, number(8))),
    "RST_STREAM of no stream": (PROTOCOL_ERROR, frame(3, 0, 0, number(8))),
    "WINDOW_UPDATE of 3 bytes": (FRAME_SIZE_ERROR, frame(8, 0, 0, b"123")),
    "WINDOW_UPDATE of nothing": (PROTOCOL_ERROR, frame(8, 0, 0, number(0))),
    "WINDOW_UPDATE of an idle stream": (PROTOCOL_ERROR, frame(8, 0, 5, number(1))),
    "a window of the connection that overflows": (FLOW_CONTROL_ERROR, frame(8, 0, 0, number(2**31 - 1))),
    "DATA of no stream": (PROTOCOL_ERROR, frame(0, 0, 0, b"x")),
    "DATA of an idle stream": (PROTOCOL_ERROR, frame(0, 0, 1, b"x")),
    "DATA behind the end": (STREAM_CLOSED, WHOLE + frame(0, 1, 1, b"x")),
    "DATA with more padding than frame": (PROTOCOL_ERROR, OPEN + frame(0, 8, 1, b"\5xx")),
    "HEADERS behind the end": (STREAM_CLOSED, WHOLE + frame(1, 5, 1, HEAD)),
    "HEADERS of no stream": (PROTOCOL_ERROR, frame(1, 5, 0, HEAD)),
    "HEADERS of an even stream": (PROTOCOL_ERROR, frame(1, 5, 2, HEAD)),
    "HEADERS with more padding than frame": (PROTOCOL_ERROR, frame(1, 13, 1, b"\xff" + HEAD)),
    "HEADERS without its priority": (FRAME_SIZE_ERROR, frame(1, 0x25, 1, b"abc")),
    "HEADERS that HPACK can't read": (COMPRESSION_ERROR, frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff")),
    "an index that is not in the table": (COMPRESSION_ERROR, frame(1, 5, 1, b"\xbf")),
    "a table larger than allowed": (COMPRESSION_ERROR, frame(1, 5, 1, b"\x3f\xff\xff\x03" + HEAD)),
    "CONTINUATION of nothing": (PROTOCOL_ERROR, frame(9, 4, 1, HEAD)),
    "something between HEADERS and CONTINUATION": (PROTOCOL_ERROR, frame(1, 1, 1, HEAD) + frame(6, 0, 0, b"12345678")),
    "CONTINUATION of another stream": (PROTOCOL_ERROR, frame(1, 1, 1, HEAD) + frame(9, 4, 3, HEAD)),
    "PUSH_PROMISE": (PROTOCOL_ERROR, OPEN + frame(5, 4, 1, number(2) + HEAD)),
    "PRIORITY of 4 bytes": (FRAME_SIZE_ERROR, frame(2, 0, 1, b"1234")),
    "GOAWAY of 4 bytes": (FRAME_SIZE_ERROR, frame(7, 0, 0, b"1234")),
    "more than the window of the connection": (
        FLOW_CONTROL_ERROR,
        b"".join(frame(1, 4, stream, HEAD) + frame(0, 0, stream, b"x" * 16384) * 15 for stream in range(1, 41, 2)),
    ),
    "a flood of PING": (CALM, frame(6, 0, 0, b"12345678") * 3000),
    "a flood of SETTINGS": (CALM, frame(4, 0, 0, struct.pack(">HI", 4, 1)) * 3000),
    "a flood of PRIORITY": (CALM, frame(2, 0, 1, b"\0\0\0\0\0") * 3000),
    "a flood of frames we don't know": (CALM, frame(77, 0, 0, b"") * 3000),
    "a flood of empty DATA": (CALM, OPEN + frame(0, 0, 1) * 3000),
    "a flood of resets": (CALM, b"".join(frame(1, 4, n, HEAD) + frame(3, 0, n, number(8)) for n in range(1, 6001, 2))),
    "a flood of streams that we have to reset": (
        CALM,
        b"".join(frame(1, 4, n, HEAD) + frame(8, 0, n, number(0)) for n in range(1, 6001, 2)),
    ),
    "a flood of streams beyond the bound": (CALM, b"".join(frame(1, 4, n, HEAD) for n in range(1, 6001, 2))),
    "CONTINUATION without end": (CALM, frame(1, 1, 1, HEAD) + frame(9, 0, 1, b"") * 3000),
    "a head of a megabyte": (CALM, frame(1, 1, 1, HEAD) + frame(9, 0, 1, b"\0" * 16384) * 64),
    "a head that unpacks to megabytes": (
        CALM,
        # one entry of 4 kB in the table, named again and again by one byte each
        frame(1, 5, 1, HEAD + b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 10000),
    ),
}


@pytest.mark.parametrize("name", CONNECTION_ERRORS)
def test_ends_the_connection(name: str) -> None:
    code, data = CONNECTION_ERRORS[name]
    noted = Noted()
    limits = Limits(window_bytes=1 << 20)
    with serving(noted, limits, look_s=60.0) as made, raw_connection(made) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert goaway_code(read_frames(connection)) == code
        connection.close()
        wait_until(lambda: made.server.open_connections == 0)
        assert len(noted.gone) == len(noted.exchanges)
        assert made.server.refused_total >= 1
        assert made.server.collecting_bytes == 0


BAD_HEADS = {
    "no method": FIELDS[1:],
    "no path": [FIELDS[0], FIELDS[1], FIELDS[3]],
    "no scheme": [FIELDS[0], FIELDS[2], FIELDS[3]],
    "no authority": FIELDS[:3],
    "a path that is none": [FIELDS[0], FIELDS[1], (b":path", b"x"), FIELDS[3]],
    "an empty path": [FIELDS[0], FIELDS[1], (b":path", b""), FIELDS[3]],
    "a path with a space": [FIELDS[0], FIELDS[1], (b":path", b"/ HTTP/1.1"), FIELDS[3]],
    "a path with a line": [FIELDS[0], FIELDS[1], (b":path", b"/\r\nx: y"), FIELDS[3]],
    "CONNECT": [(b":method", b"CONNECT"), FIELDS[3]],
    "a method with a space": [(b":method", b"GET /"), *FIELDS[1:]],
    "two paths": [*FIELDS, (b":path", b"/")],
    "a pseudo-header we don't know": [*FIELDS, (b":protocol", b"websocket")],
    "a pseudo-header of answers": [*FIELDS, (b":status", b"200")],
    "a pseudo-header behind others": [*FIELDS[:3], (b"a", b"b"), FIELDS[3]],
    "upper case": [*FIELDS, (b"Abc", b"d")],
    "an empty name": [*FIELDS, (b"", b"d")],
    "a name with a space": [*FIELDS, (b"a b", b"d")],
    "a value with a line": [*FIELDS, (b"a", b"b\r\nc: d")],
    "a value with NUL": [*FIELDS, (b"a", b"b\0")],
    "a value that begins with a space": [*FIELDS, (b"a", b" b")],
    "connection": [*FIELDS, (b"connection", b"close")],
    "transfer-encoding": [*FIELDS, (b"transfer-encoding", b"chunked")],
    "upgrade": [*FIELDS, (b"upgrade", b"websocket")],
    "te": [*FIELDS, (b"te", b"gzip")],
    "two hosts": [*FIELDS, (b"host", b"other")],
    "a length that is none": [*FIELDS, (b"content-length", b"1x")],
    "two lengths": [*FIELDS, (b"content-length", b"1"), (b"content-length", b"1")],
    "a length and no body": [*FIELDS, (b"content-length", b"1")],
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_a_head_that_is_malformed_ends_its_stream_and_no_other(name: str) -> None:
    with serving(echo) as made, Http2Client(made) as client:
        client.h2.streams.clear()
        client.raw(frame(1, 5, 1, Encoder().encode(BAD_HEADS[name])))
        got = b""
        while b"\0\0\4\3\0\0\0\0\1\0\0\0\1" not in got:  # RST_STREAM of stream 1 with PROTOCOL_ERROR
            piece = client.socket.recv(65536)
            assert piece
            got += piece
        client.raw(frame(1, 5, 3, HEAD))
        while not got.endswith(b"POST "):
            piece = client.socket.recv(65536)
            assert piece
            got += piece


def test_a_body_that_is_not_as_long_as_announced_resets_its_stream() -> None:
    head = Encoder().encode([*FIELDS, (b"content-length", b"3")])
    for body in (frame(0, 1, 1, b"ab"), frame(0, 0, 1, b"abcd"), frame(0, 0, 1, b"ab") + frame(1, 5, 1, Encoder().encode([]))):
        noted = Noted()
        with serving(noted) as made, raw_connection(made) as connection:
            connection.sendall(frame(1, 4, 1, head) + body + frame(7, 0, 0, b"\0" * 8))
            assert (3, 0, 1, number(PROTOCOL_ERROR)) in read_frames(connection)
            assert len(noted.gone) == 1


def test_too_many_headers_are_answered_431() -> None:
    with serving(echo) as made, Http2Client(made) as client:
        stream = client.head(b"GET", b"/", *((b"x-%d" % n, b"y") for n in range(300)))
        assert client.wait(stream)[0] == 431
        assert client.ask(b"GET", b"/") == (200, b"GET ")


def test_more_than_the_window_of_a_stream_resets_it() -> None:
    noted = Noted()
    with serving(noted, Limits(window_bytes=100_000)) as made, raw_connection(made) as connection:
        connection.sendall(OPEN + frame(0, 0, 1, b"x" * 16384) * 7 + frame(7, 0, 0, b"\0" * 8))
        assert (3, 0, 1, number(FLOW_CONTROL_ERROR)) in read_frames(connection)


def test_a_window_of_a_stream_that_overflows_resets_it() -> None:
    with serving(Noted()) as made, raw_connection(made) as connection:
        connection.sendall(WHOLE + frame(8, 0, 1, number(2**31 - 1)) + frame(7, 0, 0, b"\0" * 8))
        assert (3, 0, 1, number(FLOW_CONTROL_ERROR)) in read_frames(connection)


def test_the_first_frame_must_be_settings() -> None:
    with serving(echo) as made, made.connect() as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + WHOLE)
        assert goaway_code(read_frames(connection)) == PROTOCOL_ERROR


def test_a_body_that_does_not_come_resets_the_stream() -> None:
    with serving(echo, Limits(body_s=0.1)) as made, Http2Client(made) as client:
        stream = client.head(b"POST", b"/", end=False)
        assert client.until_reset(stream) == 8
        assert client.ask(b"GET", b"/") == (200, b"GET ")


def test_a_frame_that_never_ends_is_given_up() -> None:
    with serving(echo, Limits(head_s=0.1)) as made, raw_connection(made) as connection:
        connection.sendall(frame(1, 0, 1, HEAD)[:12])
        assert goaway_code(read_frames(connection)) == 0


def test_a_frame_that_comes_byte_by_byte_is_given_up_too() -> None:
    with serving(echo, Limits(head_s=0.2)) as made, raw_connection(made) as connection:
        connection.settimeout(0.02)
        got = b""
        for byte in frame(1, 4, 1, HEAD + b"\0\1a\1b" * 1000):
            try:
                connection.send(bytes((byte,)))
                got += connection.recv(1000)
            except TimeoutError:
                continue
            if b"\0\0\x08\7" in got:  # GOAWAY
                break
        assert b"\0\0\x08\7" in got
