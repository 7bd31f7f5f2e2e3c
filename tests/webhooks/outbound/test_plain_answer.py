"""The answer that is read without h11 is what h11 reads in it; and whatever is doubtful is left to h11."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outbound.exchange import _waiting_for_an_answer
from headrace.webhooks.outbound.plain_answer import plain_answer


def by_h11(data: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes, bytes] | None:
    """Status, headers, body and what is behind it; None for what is no whole answer on a connection that stays open."""
    http = _waiting_for_an_answer()
    http.receive_data(data)
    body = b""
    head: h11.Response | None = None
    try:
        while True:
            event = http.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
    except h11.RemoteProtocolError:
        return None
    if head is None or http.their_state is not h11.DONE:
        return None
    return head.status_code, list(head.headers), body, http.trailing_data[0]


STATUS = st.sampled_from(
    [b"200 OK", b"204 No Content", b"500", b"404 ", b"304 x", b"100 Continue", b"20 x", b"600 x", b"200\tx"]
)
NAMES = st.sampled_from(
    [
        b"Content-Length",
        b"content-length",
        b"X-A",
        b"Transfer-Encoding",
        b"Connection",
        b"X B",
        b"",
        b"Content-Length ",
        b"\xe9",
    ]
)
VALUES = st.sampled_from(
    [b"0", b"2", b"5", b"-1", b"2, 2", b"", b"chunked", b"close", b"keep-alive", b"a\tb", b"x\x00", b"\xe9", b"+2"]
)
HEADERS = st.lists(st.tuples(NAMES, VALUES, st.sampled_from([b": ", b":", b" : ", b":\t"])), max_size=4)
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"])


@given(STATUS, HEADERS, st.binary(max_size=8), ENDS, st.sampled_from([b"HTTP/1.1 ", b"HTTP/1.1 ", b"HTTP/1.0 ", b"http/1.1 "]))
def test_what_is_plain_is_what_h11_reads(status, headers, body, end, version):
    lines = b"".join(name + colon + value + end for name, value, colon in headers)
    data = version + status + end + lines + end + body
    plain = plain_answer(data)
    if plain is None or len(plain.rest) < plain.length:
        return
    found = by_h11(data)
    assert found == (plain.status, plain.headers, plain.rest[: plain.length], plain.rest[plain.length :])


@given(st.binary(max_size=200))
def test_any_bytes_are_plain_or_not(data):
    plain_answer(data)
    plain_answer(b"HTTP/1.1 200 OK\r\n" + data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 204\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_usual_answers_are_plain(data):
    assert plain_answer(data) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",  # until the end of the connection
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n X: folded\r\n\r\nok",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    ],
)
def test_doubtful_answers_are_not(data):
    assert plain_answer(data) is None
