"""How a connection of HTTP/1.1 ends, and how long it may take its time.

A peer that has closed its side (FIN) may still wait for the answer, or be gone: the two look the same until something is sent.
So it is sent `100 Continue`, which every client skips, and whoever is gone answers that with a reset.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from headrace.web.answer_head import CONTINUE, short_answer
from headrace.web.connection import Connection
from headrace.web.exchange import Address
from headrace.web.http1_exchange import Http1Exchange

if TYPE_CHECKING:
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.web")

_ASK_AGAIN_S = 0.02


class Http1Ending(Connection):
    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        super().__init__(server, transport, peer)
        self.exchange: Http1Exchange | None = None
        self.keep_alive = True
        self.http11 = True
        self.head_bytes = 0  # of a head, or of trailers, that are not complete
        self.head_began_s = server.now
        self.body_left = 0  # of a body with a length; CHUNKED_LENGTH while chunks come
        self.rest = b""  # what came behind what is worked on
        self.blocked = False  # writing
        self.drain_waiters: list[asyncio.Future[None]] = []
        self.half_closed = False  # by the peer
        transport.set_write_buffer_limits(high=server.limits.unsent_bytes)

    @property
    def under_way(self) -> int:
        return int(self.exchange is not None or self.upgraded)

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self.transport.write(data)

    # --- ends that we make

    def close(self, linger: bool = False) -> None:
        """Behind what was written. With `linger` the peer may still send, and is read from for a while."""
        self.over = True
        self.rest = b""
        if linger and not self.half_closed:
            self.linger()
        else:
            self.transport.close()

    def refuse_bytes(self, status: int, why: str) -> None:
        self.server.refusals.note(self.peer, why, self.server.now)
        exchange, self.exchange = self.exchange, None
        answering = exchange is not None and exchange.answering
        if exchange is not None:
            self.tell(exchange)
        if answering:
            self.cut()
        elif not self.transport.is_closing():
            self.write(short_answer(status))
            self.close(linger=True)

    # --- what happens to the connection

    def pause_writing(self) -> None:
        self.blocked = True
        self.server.blocked.add(self)

    def resume_writing(self) -> None:
        self.blocked = False
        self.server.blocked.discard(self)
        waiters, self.drain_waiters = self.drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def eof_received(self) -> bool:
        self.half_closed = True
        exchange = self.exchange
        if exchange is None or not exchange._complete or self.lingering:
            return False  # closes the transport
        self._ask_whether_there()
        return True

    def _ask_whether_there(self) -> None:
        exchange = self.exchange
        if exchange is not None and not exchange.answering and self.http11 and not self.transport.is_closing():
            self.write(CONTINUE)
            asyncio.get_running_loop().call_later(_ASK_AGAIN_S, self._look_whether_there)

    def _look_whether_there(self) -> None:
        found = self.transport.get_extra_info("socket")
        if self.lost or found is None or self.transport.is_closing():
            return
        try:
            reset = found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError:
            reset = 1
        if reset:
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        exchange, self.exchange = self.exchange, None
        self.rest = b""
        if exchange is not None:
            self.tell(exchange)
        waiters, self.drain_waiters = self.drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ConnectionError("the peer is gone"))

    def tell(self, exchange: Http1Exchange) -> None:
        try:
            exchange._lost()
        except Exception:
            logger.exception("a handler failed when its peer went")

    def shut_down(self) -> None:
        self.keep_alive = False
        if self.exchange is None and not self.over:
            self.close()

    def tick(self, now: float) -> None:
        if self.upgraded:
            if self.transport.is_closing():
                self.server.forget(self)
            return
        super().tick(now)
        limits = self.server.limits
        exchange = self.exchange
        if self.over or self.transport.is_closing():
            return
        if exchange is None:
            if self.head_bytes and not self.body_left:
                if now - self.head_began_s > limits.head_s:
                    self.refuse_bytes(408, "the head of a request takes too long")
            elif now - self.moved_s > (limits.body_s if self.body_left else self.server.idle_s):
                self.close()
        elif self.half_closed:
            self._look_whether_there()
        elif self.body_left and exchange._asked and not self.paused and now - self.moved_s > limits.body_s:
            self.refuse_bytes(408, "the body of a request does not come")
