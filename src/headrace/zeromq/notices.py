"""What libzmq tells of the connections of a socket: who is there, and who did not get in.

Its monitor is read on the event loop, `SLICE` events at a time. Of connections that failed their handshake (random bytes, a
wrong key, no key) there is one line in the log every few seconds, with their number.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from headrace.zeromq.wire.dropped import Dropped

if TYPE_CHECKING:
    from headrace.zeromq.wire.sockets import Context, Socket

SLICE = 200

_OPENED = int(zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED)
_CLOSED = int(zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED)
_FAILED = {
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "it spoke no ZeroMQ, or not to the end",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "it spoke another protocol, or another security mechanism",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "its key is not allowed",
}
_WATCHED = _OPENED | _CLOSED | sum(_FAILED) | int(zmq.EVENT_HANDSHAKE_SUCCEEDED)


class Notices:
    def __init__(self, where: str, context: Context, socket: Socket, logger: logging.Logger) -> None:
        self.connections: dict[int, None] = {}  # their descriptors, the oldest first
        self.handshaking = 0  # of them, how many have not finished their handshake
        self.lost = 0  # how many had, and are gone
        self.failed = Dropped(f"{where}: connections", logger)
        self._socket = socket
        address = f"inproc://headrace-monitor-{id(socket)}"
        socket.monitor(address, _WATCHED)
        self._monitor = context.pair()
        self._monitor.rcvhwm = 0  # with a bound libzmq's own thread would wait for us; we never stop reading
        self._monitor.linger = 0
        self._monitor.connect(address)
        self._loop = asyncio.get_running_loop()
        self._fd = int(self._monitor.fd)
        self._again: asyncio.Handle | None = None
        self._loop.add_reader(self._fd, self.read)
        self.read()

    def read(self) -> None:
        """Takes in what there is; the rest of a flood later."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        recv, more = self._monitor.recv_multipart, zmq.NOBLOCK
        try:
            for _ in range(SLICE):
                self._take(recv(more))
        except zmq.Again:
            return
        self._again = self._loop.call_soon(self.read)  # the descriptor does not call again for what it called for

    def _take(self, frames: list[bytes]) -> None:
        told = parse_monitor_message(frames)
        event, value = int(told["event"]), int(told["value"])
        if event & _OPENED:
            self.connections[value] = None
            self.handshaking += 1
        elif event & _CLOSED:
            self.connections.pop(value, None)
            self.lost += event == zmq.EVENT_DISCONNECTED
        else:
            self.handshaking = max(0, self.handshaking - 1)
            if event in _FAILED:
                self.failed.add(_FAILED[event])
                self.lost -= 1  # what follows is that it is disconnected

    def close(self) -> None:
        """Before the socket is closed."""
        self._loop.remove_reader(self._fd)
        if self._again is not None:
            self._again.cancel()
        self._socket.disable_monitor()
        self._monitor.close(0)
