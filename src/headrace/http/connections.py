"""The TCP connections of the HTTP listener, which Granian keeps to itself: found among the open files of this process.

Three things need them. A connection that has not even said which HTTP it speaks keeps its place among `MAX_CONNECTIONS` for
ever (the timeout for the head of a request begins behind that), so those that are silent for `SILENT_S` are closed. A peer that
does not read what it is sent has to be cut off, which an ASGI application can't. And what has come of a WebSocket's message but
was not handed over yet, is known to the kernel alone (`v1.socket_watch`).

Works on Linux, where /proc/self/fd lists the files and TCP_INFO tells what came; elsewhere nothing is found, and nothing done.
A descriptor may be closed and used again at any moment, so each is duplicated before it is looked at: what is shut down is what
was looked at. Run these on a thread: each open file costs some microseconds.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Set
from contextlib import closing

SILENT_S = 30
PREFACE_BYTES = 24  # of HTTP/2; until then it may still be either

_TCP_INFO_BYTES = 136
_LAST_SENT_MS = struct.Struct("=44xI")
_RECEIVED_BYTES = struct.Struct("=128xQ")
_AT_ONCE = struct.pack("ii", 1, 0)
_INTERNET = (socket.AF_INET, socket.AF_INET6)


def cut(host: str, port: int) -> bool:
    """Shuts down the connection from this address."""
    for found in _connections():
        with closing(found):
            if _peer(found) == (host, port):
                _shut_down(found)
                return True
    return False


def by_peer(peers: Set[tuple[str, int]]) -> dict[tuple[str, int], socket.socket]:
    """The connections from these addresses, each under a descriptor of its own, which must be closed."""
    taken: dict[tuple[str, int], socket.socket] = {}
    for found in _connections():
        peer = _peer(found)
        if peer in peers and peer is not None and peer not in taken:
            taken[peer] = found
        else:
            found.close()
    return taken


def received_bytes(connection: socket.socket) -> int:
    """How much came from the peer since it connected; 0 where that is not known."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0
    return int(_RECEIVED_BYTES.unpack_from(info)[0]) if len(info) >= _TCP_INFO_BYTES else 0


def cut_silent(listener_port: int, silent_s: float = SILENT_S) -> int:
    """Shuts down connections to this port that have said almost nothing for so long. Returns how many."""
    count = 0
    for found in _connections():
        with closing(found):
            try:
                if found.getsockname()[1] != listener_port or _peer(found) is None:
                    continue
                info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            except OSError:
                continue
            if len(info) < _TCP_INFO_BYTES:
                return count
            (idle_ms,), (received,) = _LAST_SENT_MS.unpack_from(info), _RECEIVED_BYTES.unpack_from(info)
            if received < PREFACE_BYTES and idle_ms > silent_s * 1000:  # nothing was sent, so that is its age
                _shut_down(found)
                count += 1
    return count


def _connections() -> Iterator[socket.socket]:
    """Those of this process, each under a descriptor of its own, which must be closed."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return
    for name in names:
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            found = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        if found.family in _INTERNET and found.type == socket.SOCK_STREAM:
            yield found
        else:
            found.close()


def _peer(found: socket.socket) -> tuple[str, int] | None:
    try:
        host, port = found.getpeername()[:2]
    except OSError:  # it listens
        return None
    return host.removeprefix("::ffff:"), port


def _shut_down(found: socket.socket) -> None:
    """At once: what the peer has not read is thrown away when Granian closes the socket, which it does now."""
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        found.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
