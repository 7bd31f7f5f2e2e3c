"""Answers with parts of files in them, which the kernel sends by itself (sendfile): their bytes are never copied to the server.

The transport knows nothing of such parts, so such an answer goes past it, over a second descriptor of the same socket. It
begins only when the transport has nothing left to send; what is to be sent behind it waits here until it is gone. Then the
second descriptor is closed, so that a connection has one of them only while it needs it.

Bound: one answer with files, and what those requests led to that were read before it; the connection reads no more of them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from headrace.log.port import Buffer, FilePart

_MORE = getattr(socket, "MSG_MORE", 0)  # what follows may go into the same packet


class FileSender:
    def __init__(self, descriptor: int, gone: Callable[[], None], failed: Callable[[], None]) -> None:
        """`gone` is told when everything is sent that had to wait for its reader, `failed` when the peer has gone. Raises
        OSError when there are too many descriptors."""
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._gone = gone
        self._failed = failed
        self._pieces: deque[Buffer | FilePart] = deque()
        self._sent = 0  # of the first one
        self._waits = False

    @property
    def busy(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: Sequence[Buffer | FilePart]) -> None:
        self._pieces.extend(pieces)
        if not self._waits:
            self._go_on()

    def _go_on(self) -> None:
        pieces = self._pieces
        try:
            while pieces:
                piece = pieces[0]
                if isinstance(piece, FilePart):
                    self._sent += self._send_part(piece)
                else:
                    rest = memoryview(piece)[self._sent :] if self._sent else piece
                    self._sent += self._socket.send(rest, _MORE if len(pieces) > 1 else 0)
                if self._sent == len(piece):
                    pieces.popleft()
                    self._sent = 0
        except BlockingIOError:
            if not self._waits:
                self._waits = True
                self._loop.add_writer(self._socket, self._go_on)
            return
        except OSError:
            self.close()
            self._failed()
            return
        waited = self._waits
        self.close()
        if waited:
            self._gone()

    def _send_part(self, part: FilePart) -> int:
        sent = os.sendfile(self._socket.fileno(), part.fd, part.position + self._sent, len(part) - self._sent)
        if not sent:
            raise OSError(errno.EIO, "a segment is shorter than it was")
        return sent

    def close(self) -> None:
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._socket)
        self._pieces.clear()
        self._socket.close()
