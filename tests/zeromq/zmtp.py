"""A peer that speaks just enough ZMTP 3.0 (ZeroMQ RFC 23) for a handshake, and then says what a library never would."""

from __future__ import annotations

import socket

from headrace.testing import wait_until

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32


def connected(port: int, kind: bytes = b"PUSH", *, receive_buffer: int | None = None) -> socket.socket:
    peer = dialled(port, receive_buffer)
    peer.sendall(GREETING)
    _read(peer, 64)
    ready = b"\x05READY" + b"\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    peer.sendall(b"\x04" + bytes([len(ready)]) + ready)
    _read(peer, _read(peer, 2)[1])
    return peer


def dialled(port: int, receive_buffer: int | None = None) -> socket.socket:
    """A bare connection, as soon as somebody listens."""

    def dial() -> socket.socket | None:
        peer = socket.socket()
        peer.settimeout(30)
        if receive_buffer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            peer.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            peer.close()
            return None
        return peer

    return wait_until(dial, what="a listener")


def next_frame(peer: socket.socket) -> bytes:
    flags, size = _read(peer, 2)
    if flags & 2:
        size = int.from_bytes(bytes([size]) + _read(peer, 7), "big")
    return _read(peer, size)


def frame(content: bytes, *, more: bool = False) -> bytes:
    if len(content) < 256:
        return bytes([more, len(content)]) + content
    return bytes([2 | more]) + len(content).to_bytes(8, "big") + content


def is_closed(peer: socket.socket) -> bool:
    """Whether the other end has closed the connection; waits for it."""
    peer.settimeout(30)
    try:
        while peer.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def _read(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = peer.recv(size - len(got))
        assert part, "the server hung up"
        got += part
    return got
