"""The head of a request of HTTP/2, once HPACK is undone: what RFC 9113, 8.2 and 8.3 ask of it.

A head that is malformed ends its stream, not the connection: the decoder's state is fine.
"""

from __future__ import annotations

import re

from headrace.dataclass import dataclass
from headrace.web.exchange import Header

_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}").fullmatch
_TARGET = re.compile(rb"/[\x21-\x7e]*|\*").fullmatch
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+").fullmatch  # lower case alone
_BAD_VALUE = re.compile(rb"[\0\r\n]").search
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_LOOKED_AT = frozenset((*_OF_CONNECTIONS, b"te", b"host", b"cookie", b"content-length", b"expect"))
MOST_DIGITS = 15

_good_names: set[bytes] = set()  # seen and found good; at most `_MOST_NAMES`
_MOST_NAMES = 1024


class BadStream(Exception):
    """The stream is reset."""


@dataclass(frozen=True, slots=True)
class Head:
    method: bytes
    target: bytes
    headers: list[Header]
    length: int  # of the body as announced, -1 if it was not
    expects: bool  # 100 Continue


def read_head(fields: list[Header]) -> Head:
    method = target = authority = scheme = None
    headers: list[Header] = []
    cookies: list[bytes] = []
    host: bytes | None = None
    length = -1
    expects = False
    for name, value in fields:
        if name[:1] == b":":
            if headers or cookies:
                raise BadStream("a pseudo-header behind others")
            if name == b":method" and method is None:
                method = value
            elif name == b":path" and target is None:
                target = value
            elif name == b":authority" and authority is None:
                authority = value
            elif name == b":scheme" and scheme is None:
                scheme = value
            else:
                raise BadStream("a pseudo-header we don't know, or twice")
            continue
        _check(name, value)
        if name in _LOOKED_AT:
            if name == b"host":
                if host is not None:
                    raise BadStream("more than one Host")
                host = value
                continue
            if name == b"cookie":  # RFC 9113, 8.2.3
                cookies.append(value)
                continue
            if name == b"content-length":
                if length >= 0 or not value.isdigit() or len(value) > MOST_DIGITS:
                    raise BadStream("Content-Length is no number, or twice")
                length = int(value)
            elif name == b"expect":
                expects = value.lower() == b"100-continue"
            elif name == b"te":
                if value != b"trailers":
                    raise BadStream("TE other than trailers")
            else:
                raise BadStream("a header that HTTP/2 does not have")
        headers.append((name, value))
    if method is None or target is None or scheme is None or not _METHOD(method):
        raise BadStream("a pseudo-header is missing, or no method")
    if not _TARGET(target) or (target == b"*" and method != b"OPTIONS"):
        raise BadStream("a path that is none")
    if authority is not None and host is not None and authority != host:
        raise BadStream("Host and :authority differ")
    host = authority if authority is not None else host
    if host is None or _BAD_VALUE(host):
        raise BadStream("no :authority")
    headers.insert(0, (b"host", host))
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))
    return Head(method, target, headers, length, expects)


def check_trailers(fields: list[Header]) -> None:
    for name, value in fields:
        _check(name, value)


def _check(name: bytes, value: bytes) -> None:
    if name not in _good_names:
        if not _NAME(name):
            raise BadStream("a name that is none")
        if len(_good_names) < _MOST_NAMES and len(name) <= 64:
            _good_names.add(name)
    if _BAD_VALUE(value) or (value and (value[0] in b" \t" or value[-1] in b" \t")):
        raise BadStream("a value that is none")
