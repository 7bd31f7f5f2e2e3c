"""The answer to one request of HTTP/1.1: whole, or piece by piece with a length, in chunks, or up to the end of the connection.

A small answer is one write of head and body together; a large body is not copied for that. What is written goes to the socket
at the end of the event loop's turn (uvloop gathers it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.web.answer_head import (
    CHUNKED,
    CLOSE,
    KEEP_ALIVE,
    LAST_CHUNK,
    LENGTHS,
    NO_BODY,
    header_lines,
    split_headers,
    status_line,
)
from headrace.web.exchange import Exchange, Header

if TYPE_CHECKING:
    from headrace.web.http1 import Http1Connection

JOINED_BYTES = 64 * 1024  # up to here copying costs less than a second piece to write

_NO_LENGTH = -1


class Http1Exchange(Exchange):
    __slots__ = ("answering", "can_upgrade", "chunked", "connection", "head_alone", "left")

    def __init__(
        self, connection: Http1Connection, method: bytes, target: bytes, headers: list[Header], can_upgrade: bool
    ) -> None:
        super().__init__(method, target, headers, connection.peer, False)
        self.connection: Http1Connection | None = connection
        self.can_upgrade = can_upgrade
        self.answering = False
        self.chunked = False
        self.head_alone = False  # the answer has no body
        self.left = _NO_LENGTH  # of a body whose length was announced

    # --- the answer

    def respond(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.answering:
            raise RuntimeError("the answer has begun already")
        lines, framing = split_headers(headers)
        alone = status in NO_BODY or self.method == b"HEAD"
        size = len(body)
        if size > JOINED_BYTES and not alone and not connection.server.can_send(size):
            connection.server.refusals.note(self.peer, "too much waits for peers that do not read", connection.server.now)
            connection.keep_alive = False
            status, lines, body, size = 503, b"", b"", 0
        if framing:
            for name, value in headers:
                if name == b"connection":
                    connection.keep_alive &= value.lower() != b"close"
                elif name == b"content-length" and alone and not size:
                    size = int(value)
        if (status in NO_BODY and not size) or status == 204:
            length = b"\r\n"
        else:
            length = LENGTHS[size] if size < 2048 else b"content-length: %d\r\n\r\n" % size
        if connection.body_left and not self._may_go_on(connection):
            connection.keep_alive = False
        head = status_line(status) + connection.server.date_line + lines
        if not connection.keep_alive:
            head += CLOSE
        elif not connection.http11:
            head += KEEP_ALIVE
        if alone:
            connection.write(head + length)
        elif size <= JOINED_BYTES:
            connection.write(head + length + body)
        else:
            connection.write(head + length)
            connection.write(body)
        self._drop()
        self.connection = None
        connection.answered()

    def start(self, status: int, headers: Sequence[Header]) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.answering:
            raise RuntimeError("the answer has begun already")
        head = status_line(status) + connection.server.date_line + header_lines(headers)
        self.head_alone = status in NO_BODY or self.method == b"HEAD"
        length: bytes | None = None
        for name, value in headers:
            if name == b"connection":
                connection.keep_alive &= value.lower() != b"close"
            elif name == b"content-length":
                length = value
        if length is not None and status != 204:
            self.left = int(length)
            last = b"content-length: %d\r\n\r\n" % self.left
        elif status in NO_BODY:
            last = b"\r\n"
        elif connection.http11:
            self.chunked = not self.head_alone
            last = CHUNKED
        else:
            connection.keep_alive = False  # the body ends where the connection does
            last = b"\r\n"
        self.answering = True
        connection.write(head + (b"" if connection.keep_alive and connection.http11 else self._persistence(connection)) + last)

    def write(self, data: bytes) -> None:
        connection = self.connection
        if connection is None or not data:
            return
        if not self.answering:
            raise RuntimeError("the answer has not begun")
        if self.head_alone:
            return
        if connection.blocked and not self._may_write(connection):
            connection.refuse("it does not read, and too much waits for it")
            return
        size = len(data)
        if self.chunked:
            if size <= JOINED_BYTES:
                connection.write(b"%x\r\n%b\r\n" % (size, data))
            else:
                connection.write(b"%x\r\n" % size)
                connection.write(data)
                connection.write(b"\r\n")
            return
        if self.left != _NO_LENGTH:
            if size > self.left:
                self.cut()
                raise RuntimeError("the body is longer than its content-length")
            self.left -= size
        connection.write(data)

    def end(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if not self.answering:
            raise RuntimeError("the answer has not begun")
        if self.left > 0 and not self.head_alone:
            self.cut()
            raise RuntimeError("the body is shorter than its content-length")
        if self.chunked:
            connection.write(LAST_CHUNK)
        self._drop()
        self.connection = None
        connection.answered()

    @property
    def full(self) -> bool:
        return self.connection is not None and self.connection.blocked

    async def drained(self) -> None:
        connection = self.connection
        if connection is None:
            if self.gone:
                raise ConnectionError("the peer is gone")
            return
        while connection.blocked and not connection.lost:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            connection.drain_waiters.append(waiter)
            await waiter
        if self.gone:
            raise ConnectionError("the peer is gone")

    def cut(self) -> None:
        connection = self.connection
        if connection is None:
            return
        self.on_gone = None
        connection.exchange = None
        self._lost()
        connection.cut()

    def upgrade(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        connection = self.connection
        if connection is None:
            raise ConnectionError("the peer is gone")
        if self.answering or not self.can_upgrade or connection.body_left:
            raise RuntimeError("this request can't change the protocol")
        self.connection = None
        return connection.hand_over(protocol)

    # --- for the connection

    def _want(self) -> None:
        if self.connection is not None:
            self.connection.want_body()

    def _taken(self, size: int) -> None:
        if self.connection is not None and self.connection.paused:
            self.connection.want_body()

    def _lost(self) -> None:
        try:
            super()._lost()
        finally:
            self.connection = None

    def _may_go_on(self, connection: Http1Connection) -> bool:
        """Whether what is still to come of the body can be thrown away."""
        return not connection.expects and connection.body_left <= connection.server.limits.discard_bytes

    @staticmethod
    def _may_write(connection: Http1Connection) -> bool:
        unsent = connection.transport.get_write_buffer_size()
        return unsent <= connection.server.limits.unsent_most_bytes and connection.server.can_send(0)

    @staticmethod
    def _persistence(connection: Http1Connection) -> bytes:
        return KEEP_ALIVE if connection.keep_alive else CLOSE
