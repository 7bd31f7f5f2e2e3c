"""Frames of HTTP/2 (RFC 9113, 4 and 6) as bytes, and headers of answers (HPACK, RFC 7541).

Headers are written without the dynamic table: a header is the same bytes in every answer then, and those of the last ones are
kept. The first answer of a connection says that its table has no room (`NO_TABLE`), so that a peer need not keep one either.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

from headrace.web.exchange import Header

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
MAX_FRAME_BYTES = 16384  # the least a peer must take, and the most we take
MOST_WINDOW = 2**31 - 1
FIRST_WINDOW = 65535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)

NO_TABLE = b"\x20"  # RFC 7541, 6.3
KEPT_HEADERS = 1024


class Code(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """Ends the connection."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


_HEAD = struct.Struct(">HBBBI")
_NUMBER = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_GOAWAY = struct.Struct(">HBBBIII")
_WITH_NUMBER = struct.Struct(">HBBBII")


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def frame_head(size: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream)


def head_frames(stream: int, block: bytes, end: bool) -> bytes:
    """HEADERS, and CONTINUATION for what does not fit in."""
    flags = END_STREAM if end else 0
    if len(block) <= MAX_FRAME_BYTES:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    pieces = [block[at : at + MAX_FRAME_BYTES] for at in range(0, len(block), MAX_FRAME_BYTES)]
    frames = [frame(HEADERS, flags, stream, pieces[0])]
    frames += [frame(CONTINUATION, 0, stream, piece) for piece in pieces[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream, pieces[-1]))
    return b"".join(frames)


def window_update(stream: int, size: int) -> bytes:
    return _WITH_NUMBER.pack(0, 4, WINDOW_UPDATE, 0, stream, size)


def reset(stream: int, code: Code) -> bytes:
    return _WITH_NUMBER.pack(0, 4, RST_STREAM, 0, stream, code)


def goaway(last_stream: int, code: Code) -> bytes:
    return _GOAWAY.pack(0, 8, GOAWAY, 0, 0, last_stream, code)


def settings(values: Sequence[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(name, value) for name, value in values))


SETTINGS_ACK = frame(SETTINGS, ACK, 0, b"")


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    return list(_SETTING.iter_unpack(payload))


def read_number(payload: bytes) -> int:
    """The first 31 bits."""
    found: int = _NUMBER.unpack_from(payload)[0]
    return found & MOST_WINDOW


def unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(Code.PROTOCOL_ERROR, "more padding than there is in the frame")
    return payload[1 : len(payload) - payload[0]]


# --- headers of answers

# Names of RFC 7541's static table that answers use.
_STATIC_NAMES = {
    b"accept-ranges": 18,
    b"access-control-allow-origin": 20,
    b"age": 21,
    b"allow": 22,
    b"cache-control": 24,
    b"content-disposition": 25,
    b"content-encoding": 26,
    b"content-language": 27,
    b"content-length": 28,
    b"content-location": 29,
    b"content-range": 30,
    b"content-type": 31,
    b"date": 33,
    b"etag": 34,
    b"expires": 36,
    b"last-modified": 44,
    b"link": 45,
    b"location": 46,
    b"retry-after": 53,
    b"server": 54,
    b"set-cookie": 55,
    b"strict-transport-security": 56,
    b"vary": 59,
    b"www-authenticate": 61,
}
_STATIC_STATUS = {200: b"\x88", 204: b"\x89", 206: b"\x8a", 304: b"\x8b", 400: b"\x8c", 404: b"\x8d", 500: b"\x8e"}
# HTTP/2 has no such headers (RFC 9113, 8.2.2), or the server says them itself.
_NOT_COPIED = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"content-length", b"date")
)
_kept: dict[Header, bytes] = {}


def status_block(status: int) -> bytes:
    found = _STATIC_STATUS.get(status)
    return found if found is not None else b"\x08\x03%d" % status  # a literal with the name `:status`


def header_block(headers: Sequence[Header]) -> bytes:
    """Raises ValueError for what is no header. Those that HTTP/2 does not have are left out."""
    block = b""
    for header in headers:
        encoded = _kept.get(header)
        if encoded is None:
            name = header[0].lower()
            encoded = b"" if name in _NOT_COPIED else encode_header(name, header[1])
            if len(encoded) <= 256:
                if len(_kept) >= KEPT_HEADERS:
                    del _kept[next(iter(_kept))]
                _kept[header] = encoded
        block += encoded
    return block


def encode_header(name: bytes, value: bytes) -> bytes:
    """A literal without indexing (RFC 7541, 6.2.2) and without Huffman's code."""
    if not name or b":" in name:
        raise ValueError(f"{name!r} is no name of a header")
    if b"\r" in value or b"\n" in value or b"\0" in value or b"\r" in name or b"\n" in name or b"\0" in name:
        raise ValueError("a header holds CR, LF or NUL")
    known = _STATIC_NAMES.get(name)
    at = _number(known, 4) if known is not None else b"\0" + _number(len(name), 7) + name
    return at + _number(len(value), 7) + value


def _number(value: int, bits: int) -> bytes:
    """RFC 7541, 5.1, with the bits before it 0."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    out = [most]
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
