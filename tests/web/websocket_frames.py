"""Frames of WebSockets as a client sends them (RFC 6455, section 5.2), right or wrong."""

from __future__ import annotations

import struct

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455, section 1.3
TEXT, BINARY, CONTINUED, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    head = bytes([(0x80 if final else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += b"\xfe" + struct.pack(">H", size)
    else:
        head += b"\xff" + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload
