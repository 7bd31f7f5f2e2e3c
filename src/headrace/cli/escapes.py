r"""Backslash escapes in delimiters and templates: \n \r \t \0 \\ and \xHH, as kcat has them."""

from __future__ import annotations

import re

_NAMED = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)


class BadEscape(ValueError):
    pass


def unescape(text: str) -> bytes:
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(text):
        out += text[position : match.start()].encode("utf-8", "surrogateescape")
        code = match[1]
        if code in _NAMED:
            out += _NAMED[code]
        elif len(code) == 3:
            out.append(int(code[1:], 16))
        else:
            raise BadEscape(f"{match[0]!r} is not an escape: use \\n, \\r, \\t, \\0, \\\\ or \\xHH")
        position = match.end()
    out += text[position:].encode("utf-8", "surrogateescape")
    return bytes(out)
