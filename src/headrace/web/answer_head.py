"""Status lines and headers of answers, as bytes of HTTP/1.1."""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus

from headrace.web.exchange import Header

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
LENGTHS = [b"content-length: %d\r\n\r\n" % size for size in range(2048)]  # most answers are small
# What the server says itself; `connection` and `content-length` of a handler are looked at, the others not sent.
FRAMING = frozenset((b"content-length", b"connection", b"transfer-encoding", b"keep-alive", b"date"))
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
NO_BODY = frozenset((204, 304))  # RFC 9110, 6.4.1

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def status_line(status: int) -> bytes:
    found = STATUS_LINES.get(status)
    if found is None:
        if not 200 <= status <= 999:
            raise ValueError(f"{status} is no status of an answer")
        found = STATUS_LINES[status] = b"HTTP/1.1 %d \r\n" % status  # at most 800 of them
    return found


def header_lines(headers: Sequence[Header]) -> bytes:
    """Without those of FRAMING. Raises ValueError if one would end its line."""
    return split_headers(headers)[0]


def split_headers(headers: Sequence[Header]) -> tuple[bytes, bool]:
    """The same, and whether there are any of FRAMING."""
    lines: list[bytes] = []
    count = 0
    for name, value in headers:
        if name not in FRAMING:
            lines += (name, b": ", value, b"\r\n")
            count += 1
    joined = b"".join(lines)
    if joined.count(b"\n") != count or joined.count(b"\r") != count or b"\0" in joined:
        raise ValueError("a header holds CR, LF or NUL")
    return joined, count != len(headers)


def date(seconds: float) -> bytes:
    """As of RFC 9110, 5.6.7; `time.strftime` would use the locale's words."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    text = f"{day}, {at.tm_mday:02} {month} {at.tm_year} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    return text.encode()


def short_answer(status: int) -> bytes:
    """Without a body, and the last of its connection."""
    return status_line(status) + CLOSE + b"content-length: 0\r\n\r\n"
