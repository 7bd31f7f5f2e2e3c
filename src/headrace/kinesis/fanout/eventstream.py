"""AWS's event stream encoding (`application/vnd.amazon.eventstream`): messages one after the other. Sans-IO.

    total length    u32    of the whole message
    headers length  u32
    prelude CRC     u32    CRC-32 (IEEE) of the eight bytes above
    headers                each: name length u8, name, type u8, value
    payload
    message CRC     u32    of everything above, the prelude CRC too

All integers are big-endian. The headers that are sent are of type 7 alone: text with a length u16.

`Frame` is what messages of one kind have in common, so that a message costs two CRCs and one copy. AWS's SDKs read messages
with `MAX_HEADERS_BYTES` and `MAX_PAYLOAD_BYTES` at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from zlib import crc32

CONTENT_TYPE = b"application/vnd.amazon.eventstream"
MAX_HEADERS_BYTES = 128 * 1024
MAX_PAYLOAD_BYTES = 24 * 1024 * 1024

_LENGTHS = Struct(">II")
_CRC = Struct(">I")
_TEXT = 7
_PRELUDE_BYTES = 12
_AROUND = _PRELUDE_BYTES + 4  # what a message has besides headers and payload


class Frame:
    """Messages with the same headers: `Frame([(":message-type", "event"), …]).message(payload)`."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Iterable[tuple[str, str]]) -> None:
        self._headers = b"".join(_text_header(name.encode(), value.encode()) for name, value in headers)
        if len(self._headers) > MAX_HEADERS_BYTES:
            raise ValueError("the headers of an event stream message are too large")

    def message(self, *parts: bytes | memoryview) -> bytes:
        """One message whose payload is these parts together."""
        headers = self._headers
        lengths = _LENGTHS.pack(_AROUND + len(headers) + sum(map(len, parts)), len(headers))
        prelude_crc = crc32(lengths)
        crc_bytes = _CRC.pack(prelude_crc)
        crc = crc32(headers, crc32(crc_bytes, prelude_crc))
        for part in parts:
            crc = crc32(part, crc)
        return b"".join((lengths, crc_bytes, headers, *parts, _CRC.pack(crc)))


def _text_header(name: bytes, value: bytes) -> bytes:
    if not 0 < len(name) < 256 or len(value) > 0x7FFF:
        raise ValueError("a header of an event stream message is too long")
    return b"%c%b%c%b%b" % (len(name), name, _TEXT, len(value).to_bytes(2, "big"), value)
