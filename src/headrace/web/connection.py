"""What connections of both protocols have in common: who it is, how it ends, and the watch over peers that don't read.

Nothing is timed for a single request. The server looks at every connection once a second (`tick`), and a connection notes the
second of the last look (`WebServer.now`) when something happens.

A peer reads if more and more of what was written is acknowledged by its kernel: what is neither in the transport's buffer nor
(where it can be asked: Linux) in the kernel's send buffer. Only that shows a slow reader from one that stands still: a send
buffer of some megabytes is refilled in leaps that may be a minute apart.

A connection that is closed while the peer may still send is read from for a while, and what comes is thrown away (`linger`): a
peer that is sent a reset would lose our last words (RFC 9112, 9.6).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from typing import TYPE_CHECKING

from headrace.web.exchange import Address, Header

if TYPE_CHECKING:
    from headrace.web.server import WebServer

CLIENT_BYTES = 200
_NUMBER = struct.Struct("i")
_AT_ONCE = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Ends the connection at once, and throws away what the kernel has to send too."""
    found = transport.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


class Connection(asyncio.Protocol):
    protocol_name = ""

    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        self.server = server
        self.transport = transport
        self.peer = peer
        self.opened_s = server.now
        self.moved_s = server.now  # the last time something came, or an answer ended
        self.requests = 0
        self.client = b""  # the User-Agent of its first request
        self.user = ""  # who logged in last
        self.written = 0
        self.sent = 0  # as of the last look
        self.sent_s = server.now
        self.lost = False
        self.paused = False  # reading
        self.over = False  # nothing is read as a request any more
        self.lingering = False
        self.linger_left = 0  # bytes
        self.upgraded = False  # another protocol has the transport

    def introduce(self, headers: list[Header]) -> None:
        """The first request is there."""
        self.client = next((value[:CLIENT_BYTES] for name, value in headers if name == b"user-agent"), b"")

    @property
    def under_way(self) -> int:
        """Exchanges that have not ended."""
        return 0

    @property
    def local(self) -> Address:
        found = self.transport.get_extra_info("sockname")
        return (str(found[0]), int(found[1])) if isinstance(found, tuple) else ("", 0)

    def cut(self) -> None:
        """At once: what was not sent is thrown away, the peer sees a reset."""
        self.over = True
        reset(self.transport)

    def linger(self) -> None:
        """Closes behind what was written, but reads on for `linger_s` or `linger_bytes`."""
        self.over = True
        if self.transport.is_closing():
            return
        self.lingering = True
        self.moved_s = self.server.now
        self.linger_left = self.server.limits.linger_bytes
        self.resume_reading()
        try:
            self.transport.write_eof()
        except (OSError, RuntimeError):
            self.transport.close()

    def throw_away(self, data: bytes) -> None:
        self.linger_left -= len(data)
        if self.lingering and self.linger_left < 0:
            self.cut()

    def pause_reading(self) -> None:
        if not self.paused and not self.transport.is_closing():
            self.paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.paused and not self.transport.is_closing():
            self.paused = False
            self.transport.resume_reading()

    def refuse(self, why: str) -> None:
        """Cut, and a line in the log."""
        self.server.refusals.note(self.peer, why, self.server.now)
        self.cut()

    def shut_down(self) -> None:
        """The server stops: what is under way may end, nothing new begins."""
        self.transport.close()

    def tick(self, now: float) -> None:
        if self.lingering and now - self.moved_s > self.server.limits.linger_s:
            self.cut()
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            sent = self.written - unsent - self._in_kernel()
            if sent != self.sent:
                self.sent = sent
                self.sent_s = now
            elif now - self.sent_s > self.server.patience_s:
                self.refuse("it does not read what it is sent")
        else:
            self.sent = self.written
            self.sent_s = now

    def _in_kernel(self) -> int:
        """Sent, and not acknowledged by the peer (SIOCOUTQ)."""
        found = self.transport.get_extra_info("socket")
        try:
            return _NUMBER.unpack(fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0]  # type: ignore[no-any-return]
        except (OSError, AttributeError):
            return 0

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.server.forget(self)
