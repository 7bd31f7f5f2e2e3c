"""One stream of HTTP/2: a request and its answer, with the windows of both directions.

What the peer sends is credited (WINDOW_UPDATE) as the handler takes it, and while it is collected at once, for that has its
own bound; half a window at a time. What the handler writes waits here for the peer's windows: `unsent_bytes` and
`unsent_most_bytes` count that. Frames go out at the end of the event loop's turn, one write for all streams.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.web.answer_head import NO_BODY
from headrace.web.exchange import Exchange, Header
from headrace.web.http2_frames import (
    DATA,
    END_STREAM,
    MAX_FRAME_BYTES,
    Code,
    encode_header,
    frame,
    head_frames,
    header_block,
    status_block,
)

if TYPE_CHECKING:
    from headrace.web.http2 import Http2Connection

_NO_LENGTH = -1


class Http2Exchange(Exchange):
    __slots__ = (
        "answering",
        "came_s",
        "connection",
        "ending",
        "expects",
        "head_alone",
        "left",
        "out",
        "outstanding",
        "receive_window",
        "received",
        "send_window",
        "sent_s",
        "stream",
        "uncredited",
        "unsent",
        "waiters",
    )

    def __init__(self, connection: Http2Connection, stream: int, method: bytes, target: bytes, headers: list[Header]) -> None:
        super().__init__(method, target, headers, connection.peer, True)
        self.connection: Http2Connection | None = connection
        self.stream = stream
        self.send_window = connection.first_send_window
        self.receive_window = connection.server.limits.window_bytes
        self.expects = False  # 100 Continue
        self.received = 0  # of the body
        self.outstanding = 0  # of what was received, not credited to the connection's window
        self.uncredited = 0  # taken, and not credited to the stream's window yet
        self.came_s = connection.server.now
        self.sent_s = connection.server.now
        self.answering = False
        self.ending = False  # the answer is complete, but waits in `out`
        self.head_alone = False
        self.left = _NO_LENGTH  # of a body whose length was announced
        self.out: deque[bytes | memoryview] = deque()
        self.unsent = 0  # in `out`
        self.waiters: list[asyncio.Future[None]] = []

    # --- the answer

    def respond(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.answering:
            raise RuntimeError("the answer has begun already")
        size = len(body)
        alone = status in NO_BODY or self.method == b"HEAD"
        if size > MAX_FRAME_BYTES * 4 and not alone and not connection.server.can_send(size):
            connection.server.refusals.note(self.peer, "too much waits for peers that do not read", connection.server.now)
            status, headers, body, size = 503, (), b"", 0
        block = connection.head_begin + status_block(status) + connection.date_block() + header_block(headers)
        if alone and not size:
            for name, value in headers:
                if name == b"content-length" and value.isdigit():
                    size = int(value)
        if status != 204 and (size or status != 304):
            block += b"\x0f\x0d" + _length_value(size)
        self.answering = True
        connection.head_begin = b""
        if alone or not size:
            connection.send(head_frames(self.stream, block, True))
            self.ending = True
            connection.answered(self)
        elif connection.may_send(self, size):
            connection.send_window -= size
            connection.send(head_frames(self.stream, block, False) + frame(DATA, END_STREAM, self.stream, body))
            self.ending = True
            connection.answered(self)
        else:
            connection.send(head_frames(self.stream, block, False))
            self.out.append(body)
            self.unsent = size
            connection.server.queued_bytes += size
            self.ending = True
            self.on_gone = None  # the handler is done
            self.sent_s = connection.server.now
            connection.wants_to_send(self)

    def start(self, status: int, headers: Sequence[Header]) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.answering:
            raise RuntimeError("the answer has begun already")
        block = connection.head_begin + status_block(status) + connection.date_block() + header_block(headers)
        self.head_alone = status in NO_BODY or self.method == b"HEAD"
        for name, value in headers:
            if name == b"content-length" and status != 204:
                self.left = int(value)
                block += encode_header(name, b"%d" % self.left)
        self.answering = True
        connection.head_begin = b""
        connection.send(head_frames(self.stream, block, False))

    def write(self, data: bytes) -> None:
        connection = self.connection
        if connection is None or not data:
            return
        if not self.answering or self.ending:
            raise RuntimeError("the answer has not begun, or has ended")
        if self.head_alone:
            return
        size = len(data)
        if self.left != _NO_LENGTH:
            if size > self.left:
                self.cut()
                raise RuntimeError("the body is longer than its content-length")
            self.left -= size
        server = connection.server
        if self.unsent > server.limits.unsent_most_bytes or (self.full and not server.can_send(0)):
            connection.give_up(self, "it does not read, and too much waits for it")
            return
        if not self.unsent:
            self.sent_s = server.now
        self.out.append(data)
        self.unsent += size
        server.queued_bytes += size
        connection.wants_to_send(self)

    def end(self) -> None:
        connection = self.connection
        if connection is None or self.ending:
            return
        if not self.answering:
            raise RuntimeError("the answer has not begun")
        if self.left > 0 and not self.head_alone:
            self.cut()
            raise RuntimeError("the body is shorter than its content-length")
        self.ending = True
        self.on_gone = None  # the handler is done
        connection.wants_to_send(self)

    @property
    def full(self) -> bool:
        connection = self.connection
        return connection is not None and (connection.blocked or self.unsent > connection.server.limits.unsent_bytes)

    async def drained(self) -> None:
        while self.full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter
        if self.gone:
            raise ConnectionError("the peer is gone")

    def cut(self) -> None:
        connection = self.connection
        if connection is None:
            return
        self.on_gone = None
        connection.reset(self, Code.CANCEL)

    # --- for the connection

    def wake(self) -> None:
        """There may be room again, or the peer is gone."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def waits_for_body(self) -> bool:
        """For more than it has."""
        return not self._complete and (self._whole is not None or self._waiter is not None)

    def _want(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.expects:
            self.expects = False
            connection.send(head_frames(self.stream, connection.head_begin + status_block(100), False))
            connection.head_begin = b""
        if self._whole is not None and self.outstanding:
            connection.credit(self, self.outstanding)

    def _taken(self, size: int) -> None:
        if self.connection is not None:
            self.connection.credit(self, min(size, self.outstanding))

    def _lost(self) -> None:
        try:
            super()._lost()
        finally:
            self.over()

    def over(self) -> None:
        """It has ended, one way or the other."""
        self._drop()
        if self.connection is not None:
            self.connection.server.queued_bytes -= self.unsent
        self.connection = None
        self.out.clear()
        self.unsent = 0
        self.wake()


def _length_value(size: int) -> bytes:
    text = b"%d" % size
    return bytes((len(text),)) + text
