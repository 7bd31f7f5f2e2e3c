"""The answer that nearly every endpoint gives, read without h11, which takes ten times as long for it.

It is whole in one piece up to the end of its head, is HTTP/1.1 word for word, says its length exactly once (or is a 204, which
has none), and says nothing about the connection or the encoding of the transfer. Whatever is not exactly that is None here and
read by h11: this never decides what a doubtful answer means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [\t\x20-\x7e]*)?\r\n((?:[!#$%&'*+\-.^_`|~0-9a-zA-Z]+:[\t\x20-\x7e]*\r\n)*)\r\n"
)
_LENGTH = re.compile(rb"[0-9]{1,10}")
_DOUBTFUL = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"))
_NO_CONTENT, _NOT_MODIFIED = 204, 304


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    status: int
    headers: list[tuple[bytes, bytes]]  # names in lower case
    length: int
    rest: bytes  # what came behind the head


def plain_answer(data: bytes) -> PlainAnswer | None:
    match = _HEAD.match(data)
    if match is None:
        return None
    headers: list[tuple[bytes, bytes]] = []
    length: int | None = None
    for line in match[2].split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name in _DOUBTFUL:
            return None
        if name == b"content-length":
            if length is not None or not _LENGTH.fullmatch(value):
                return None
            length = int(value)
        headers.append((name, value))
    status = int(match[1])
    if status == _NO_CONTENT and length is None:
        length = 0
    elif length is None or status in (_NO_CONTENT, _NOT_MODIFIED):
        return None
    return PlainAnswer(status, headers, length, data[match.end() :])
