"""Connections that bring in more than may wait are closed. libzmq counts messages, not bytes, and keeps a message of several
frames until its last one has come: one that never comes would fill the memory.

How much came over a connection is known to the kernel (TCP_INFO), how much of that was taken out of libzmq is told by `taken`.
What is between them is

    whenever the socket was empty   less than one whole message, and what the kernel itself holds (`KERNEL_BYTES`)
    otherwise                       less than the high-water mark's worth of messages, and the same

It is looked at every `LOOK_S`, `LOOK_AT` connections at a time. More than `MAX_CONNECTIONS` there are not: those that came last
are closed, since they would take the descriptors that others need. Connections over `ipc` are not looked at: the kernel does
not count there, and only who may open the file can connect.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.zeromq.wire.dropped import Dropped

if TYPE_CHECKING:
    from headrace.clock import Clock, Timer
    from headrace.zeromq.opened import Opened

logger = logging.getLogger("headrace.zeromq")

MAX_CONNECTIONS = 1000
LOOK_S = 0.05
LOOK_AT = 200
KERNEL_BYTES = 16 * 1024 * 1024  # more than a receive buffer grows to

_BYTES_RECEIVED = struct.Struct("@Q")
_BYTES_RECEIVED_AT = 128  # in struct tcp_info of linux/tcp.h


class Guard:
    """Of one socket. `whole_message` and `queue` are in bytes."""

    def __init__(self, route: str, opened: Opened, clock: Clock, *, whole_message: int, queue: int) -> None:
        self.closed = Dropped(f"route '{route}': connections", logger)
        self._opened = opened
        self._clock = clock
        self._whole_message = whole_message + KERNEL_BYTES
        self._queue = max(whole_message, queue) + KERNEL_BYTES
        self._taken: dict[int, int] = {}  # by descriptor
        self._was_empty = True
        self._next = 0
        self._timer: Timer | None = None
        if opened.address.startswith("tcp://"):
            self._port = int(opened.address.rpartition(":")[2])
            self._timer = clock.call_later(LOOK_S, self._look)

    def taken(self, taken: Mapping[int, int], drained: bool) -> None:
        """So much was taken out, and whether nothing more was there."""
        known = self._taken
        for descriptor, size in taken.items():
            known[descriptor] = known.get(descriptor, 0) + size
        self._was_empty = drained

    def _look(self) -> None:
        self._timer = self._clock.call_later(LOOK_S, self._look)
        notices = self._opened.notices
        notices.read()
        connections = list(notices.connections)
        if len(self._taken) > len(connections):
            self._taken = {descriptor: size for descriptor, size in self._taken.items() if descriptor in notices.connections}
        most = self._whole_message if self._was_empty else self._queue
        for descriptor in connections[MAX_CONNECTIONS:]:
            self._end(descriptor, f"there are {MAX_CONNECTIONS} already")
        self._next = self._next if self._next < len(connections) else 0
        chosen = connections[self._next : self._next + LOOK_AT]
        self._next += LOOK_AT
        for descriptor in chosen:
            if _came_over(descriptor) - self._taken.get(descriptor, 0) > most:
                self._end(descriptor, "more came than may wait")

    def _end(self, descriptor: int, why: str) -> None:
        if descriptor not in self._opened.notices.connections:
            return
        peer = socket.socket(fileno=descriptor)
        try:
            if self._port in (peer.getsockname()[1], peer.getpeername()[1]):  # libzmq may have closed it a moment ago
                _reset(peer)
                self.closed.add(why)
        except OSError:
            return
        finally:
            peer.detach()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reset(peer: socket.socket) -> None:
    """Ends the connection although libzmq holds it: the peer is told at once, and what the kernel kept of it is gone. After a
    shutdown alone libzmq closes it when it reads again, which it does not while its queue is full."""
    peer.shutdown(socket.SHUT_RDWR)
    nowhere = struct.pack("@H14x", socket.AF_UNSPEC)  # to connect to that is to disconnect
    ctypes.CDLL(None).connect(peer.fileno(), nowhere, len(nowhere))


def _came_over(descriptor: int) -> int:
    """Bytes since the connection was made; 0 if the kernel does not say."""
    try:
        peer = socket.socket(fileno=descriptor)
    except OSError:
        return 0
    try:
        facts = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED_AT + _BYTES_RECEIVED.size)
    except OSError:
        return 0
    finally:
        peer.detach()
    if len(facts) < _BYTES_RECEIVED_AT + _BYTES_RECEIVED.size:
        return 0
    received: int = _BYTES_RECEIVED.unpack_from(facts, _BYTES_RECEIVED_AT)[0]
    return received
