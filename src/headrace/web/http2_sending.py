"""What a connection of HTTP/2 sends: one write at the end of a turn of the event loop, windows kept, streams by turns.

Bodies of answers are sent a frame of each stream that has something and whose window is open, up to `TURN_BYTES` in one turn,
and only while the transport takes them: what waits is with its exchange, where it is counted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.web.connection import Connection
from headrace.web.exchange import Address
from headrace.web.http2_exchange import Http2Exchange
from headrace.web.http2_frames import (
    DATA,
    END_STREAM,
    FIRST_WINDOW,
    MAX_FRAME_BYTES,
    NO_TABLE,
    Code,
    encode_header,
    frame_head,
    goaway,
    reset,
    window_update,
)

if TYPE_CHECKING:
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.web")

TURN_BYTES = 256 * 1024


class Http2Sending(Connection):
    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        super().__init__(server, transport, peer)
        self.exchanges: dict[int, Http2Exchange] = {}
        self.blocked = False  # the transport takes nothing more
        self.send_window = FIRST_WINDOW
        self.first_send_window = FIRST_WINDOW  # of a new stream
        self.receive_window = server.limits.connection_window_bytes
        self.uncredited = 0
        self.head_begin = NO_TABLE  # of the next head we send
        self.last_stream = 0
        self.going_away = False
        self._was_idle = False  # when we went away
        self.peer_goes = False
        self.working = False  # on frames that came: what they make us send goes out behind them
        self.loop = asyncio.get_running_loop()
        self.sending: dict[int, Http2Exchange] = {}  # in turn
        self._out: list[bytes | memoryview] = []
        self._flush_later: asyncio.Handle | None = None
        self._date = (b"", b"")
        transport.set_write_buffer_limits(high=server.limits.unsent_bytes)

    @property
    def under_way(self) -> int:
        return len(self.exchanges)

    # --- to the transport

    def send(self, data: bytes) -> None:
        self._out.append(data)
        self._soon()

    def _soon(self) -> None:
        if not self.working and self._flush_later is None:
            self._flush_later = self.loop.call_soon(self.flush)

    def flush(self) -> None:
        if self._flush_later is not None:
            self._flush_later.cancel()
            self._flush_later = None
        if self.sending and not self.blocked:
            self._bodies()
        out = self._out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            self._out = []
            self.written += len(data)
            if not self.transport.is_closing():
                self.transport.write(data)
        if self.sending and not self.blocked and self.send_window > 0 and not self.over:
            self._soon()

    def _bodies(self) -> None:
        out, sending, limits = self._out, self.sending, self.server.limits
        budget = TURN_BYTES
        while sending and budget > 0:
            stream, exchange = next(iter(sending.items()))
            if exchange.unsent:
                if self.send_window <= 0:
                    return
                del sending[stream]
                room = min(self.send_window, exchange.send_window, MAX_FRAME_BYTES)
                if room <= 0:
                    continue  # until its window opens
                size = self._body_of(exchange, room)
                budget -= size
                self.send_window -= size
                exchange.send_window -= size
                exchange.unsent -= size
                self.server.queued_bytes -= size
                exchange.sent_s = self.server.now
                if exchange.unsent:
                    sending[stream] = exchange
                    continue
                if exchange.waiters and exchange.unsent <= limits.unsent_bytes:
                    exchange.wake()
            else:
                del sending[stream]
                if exchange.ending:
                    out.append(frame_head(0, DATA, END_STREAM, stream))
            if exchange.ending:
                self.answered(exchange)

    def _body_of(self, exchange: Http2Exchange, room: int) -> int:
        """A frame with at most so much of what waits. Returns its size."""
        waiting = exchange.out
        pieces: list[bytes | memoryview] = []
        size = 0
        while waiting and size < room:
            piece = waiting.popleft()
            if len(piece) > room - size:
                view = memoryview(piece)
                waiting.appendleft(view[room - size :])
                piece = view[: room - size]
            pieces.append(piece)
            size += len(piece)
        last = exchange.ending and size == exchange.unsent
        self._out.append(frame_head(size, DATA, END_STREAM if last else 0, exchange.stream))
        self._out += pieces
        return size

    # --- called by exchanges

    def date_block(self) -> bytes:
        if self._date[0] is not self.server.date:
            self._date = (self.server.date, encode_header(b"date", self.server.date))
        return self._date[1]

    def may_send(self, exchange: Http2Exchange, size: int) -> bool:
        """At once, and in one frame."""
        return (
            size <= MAX_FRAME_BYTES
            and size <= self.send_window
            and size <= exchange.send_window
            and not self.sending
            and not self.blocked
        )

    def wants_to_send(self, exchange: Http2Exchange) -> None:
        if exchange.send_window > 0 or not exchange.unsent:
            self.sending[exchange.stream] = exchange
            self._soon()

    def answered(self, exchange: Http2Exchange) -> None:
        """The last frame of its answer was sent."""
        if not exchange._complete:  # the rest of the body is not wanted (RFC 9113, 8.1)
            self.send(reset(exchange.stream, Code.NO_ERROR))
        self.forget_stream(exchange)
        exchange.over()

    def reset(self, exchange: Http2Exchange, code: Code) -> None:
        self.send(reset(exchange.stream, code))
        self.forget_stream(exchange)
        self.tell(exchange)

    def give_up(self, exchange: Http2Exchange, why: str) -> None:
        """Called while the handler writes, so it is told in the next turn."""
        self.server.refusals.note(self.peer, f"a stream: {why}", self.server.now)
        on_gone, exchange.on_gone = exchange.on_gone, None
        self.reset(exchange, Code.CANCEL)
        if on_gone is not None:
            self.loop.call_soon(on_gone)

    def credit(self, exchange: Http2Exchange, size: int) -> None:
        """So much of what the stream sent was taken."""
        exchange.outstanding -= size
        self.credit_connection(size)
        exchange.uncredited += size
        if exchange.uncredited * 2 >= self.server.limits.window_bytes and not exchange._complete:
            self.send(window_update(exchange.stream, exchange.uncredited))
            exchange.receive_window += exchange.uncredited
            exchange.uncredited = 0

    def credit_connection(self, size: int) -> None:
        self.uncredited += size
        if self.uncredited * 2 >= self.server.limits.connection_window_bytes:
            self.send(window_update(0, self.uncredited))
            self.receive_window += self.uncredited
            self.uncredited = 0

    # --- ends

    def tell(self, exchange: Http2Exchange) -> None:
        try:
            exchange._lost()
        except Exception:
            logger.exception("a handler failed when its peer went")

    def tell_all(self) -> None:
        exchanges = tuple(self.exchanges.values())
        self.exchanges.clear()
        self.sending.clear()
        for exchange in exchanges:
            self.tell(exchange)

    def forget_stream(self, exchange: Http2Exchange) -> None:
        self.exchanges.pop(exchange.stream, None)
        self.sending.pop(exchange.stream, None)
        self.credit_connection(exchange.outstanding)
        exchange.outstanding = 0
        self.moved_s = self.server.now
        self.close_if_done()

    def close_if_done(self) -> None:
        if (self.going_away or self.peer_goes) and not self.exchanges and not self.over:
            self.over = True
            self.loop.call_soon(self._close)

    def _close(self) -> None:
        self.flush()
        if self.peer_goes or self._was_idle:
            self.transport.close()
        else:
            self.linger()  # a frame of the peer that comes now must not cost it the last answer

    def shut_down(self) -> None:
        if not self.going_away and not self.over:
            self.going_away = True
            self._was_idle = not self.exchanges
            self.send(goaway(self.last_stream, Code.NO_ERROR))
            self.close_if_done()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.over = True
        self._out.clear()
        self.tell_all()
