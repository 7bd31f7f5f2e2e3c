"""The head of a request of HTTP/1.1, once llhttp has parsed it: what it says about the body and the connection.

llhttp is strict as it is used here: it refuses bare LF, obs-fold, spaces before the colon, control characters, more than one
Content-Length, Content-Length with Transfer-Encoding, and versions it does not know. What is checked here again or beyond it
closes what request smuggling lives on: whoever stands in front of this server must not see other ends of requests than we do.
"""

from __future__ import annotations

from headrace.web.exchange import Header

CHUNKED_LENGTH = -1
MOST_DIGITS = 15  # of a length: a petabyte

_LOOKED_AT = frozenset((b"content-length", b"transfer-encoding", b"host", b"expect"))


class BadHead(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def framing(headers: list[Header], http11: bool) -> tuple[int, bool]:
    """How long the body is (CHUNKED_LENGTH: told by chunks), and whether the peer waits for 100 Continue."""
    length: bytes | None = None
    coding: bytes | None = None
    hosts = 0
    expects = False
    for name, value in headers:
        if name not in _LOOKED_AT:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            if length is not None:
                raise BadHead(400, "more than one Content-Length")
            length = value
        elif name == b"transfer-encoding":
            if coding is not None:
                raise BadHead(400, "more than one Transfer-Encoding")
            coding = value
        else:
            expects = value.lower() == b"100-continue"
            if not expects:
                raise BadHead(417, "an expectation we don't know")
    if hosts != 1 and (hosts or http11):  # RFC 9112, 3.2
        raise BadHead(400, "no Host" if not hosts else "more than one Host")
    if coding is not None:
        if length is not None:
            raise BadHead(400, "both Content-Length and Transfer-Encoding")
        if not http11:  # RFC 9112, 6.1: its framing is faulty
            raise BadHead(400, "Transfer-Encoding in HTTP/1.0")
        if coding.strip().lower() != b"chunked":
            raise BadHead(501, "a Transfer-Encoding we don't know")
        return CHUNKED_LENGTH, expects and http11
    if length is None:
        return 0, False
    if not length.isdigit() or len(length) > MOST_DIGITS:
        raise BadHead(400, "Content-Length is no number")
    return int(length), expects and http11


def origin_form(method: bytes, target: bytes, headers: list[Header]) -> bytes:
    """The target as path and query. That of the absolute form has the host too, which then counts (RFC 9112, 3.2.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise BadHead(400, "a target that is neither a path nor a URL")
    end = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if not authority or b"@" in authority:
        raise BadHead(400, "a target without a host")
    headers[:] = [(name, authority if name == b"host" else value) for name, value in headers]
    return path if path.startswith(b"/") else b"/" + path
