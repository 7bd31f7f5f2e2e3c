"""Frames of HTTP/2 that carry no request: settings, windows, pings, resets, farewells (RFC 9113, 6.3 to 6.9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.web.exchange import Address
from headrace.web.http2_exchange import Http2Exchange
from headrace.web.http2_floods import FloodWatch
from headrace.web.http2_frames import (
    ACK,
    ENABLE_PUSH,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_BYTES,
    MAX_FRAME_SIZE,
    MOST_WINDOW,
    PING,
    SETTINGS_ACK,
    Code,
    Http2Error,
    frame,
    read_number,
    read_settings,
)
from headrace.web.http2_sending import Http2Sending

if TYPE_CHECKING:
    from headrace.web.server import WebServer


class Http2Control(Http2Sending):
    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        super().__init__(server, transport, peer)
        self.floods = FloodWatch(server.limits)
        self.settings_seen = False

    def settings_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or len(payload) % 6 or (flags & ACK and payload):
            raise Http2Error(Code.FRAME_SIZE_ERROR, "SETTINGS of a wrong size, or of a stream")
        self.floods.control(self.server.now)
        self.settings_seen = True
        if flags & ACK:
            return
        for name, value in read_settings(payload):
            if name == INITIAL_WINDOW_SIZE:
                if value > MOST_WINDOW:
                    raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window that is too large")
                change = value - self.first_send_window
                self.first_send_window = value
                for exchange in tuple(self.exchanges.values()):
                    self._open_window(exchange, change)
            elif name == ENABLE_PUSH and value > 1:
                raise Http2Error(Code.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
            elif name == MAX_FRAME_SIZE and not MAX_FRAME_BYTES <= value < 1 << 24:
                raise Http2Error(Code.PROTOCOL_ERROR, "MAX_FRAME_SIZE out of its range")
        self.send(SETTINGS_ACK)

    def ping_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 8 or stream:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "PING of a wrong size, or of a stream")
        self.floods.control(self.server.now)
        if not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))

    def goaway_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) < 8 or stream:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "GOAWAY of a wrong size, or of a stream")
        self.floods.control(self.server.now)
        self.peer_goes = True
        self.close_if_done()

    def window_update_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size")
        size = read_number(payload)
        if not stream:
            self.send_window += size
            if not size or self.send_window > MOST_WINDOW:
                raise Http2Error(Code.FLOW_CONTROL_ERROR if size else Code.PROTOCOL_ERROR, "a window that is none")
            return
        if stream > self.last_stream or not stream & 1:
            raise Http2Error(Code.PROTOCOL_ERROR, "WINDOW_UPDATE of a stream that was not opened")
        exchange = self.exchanges.get(stream)
        if exchange is None:
            return
        if not size:
            self.bad_stream(exchange, "a window of nothing more")
            return
        self._open_window(exchange, size)

    def _open_window(self, exchange: Http2Exchange, size: int) -> None:
        exchange.send_window += size
        if exchange.send_window > MOST_WINDOW:
            self.bad_stream(exchange, "a window that is too large", Code.FLOW_CONTROL_ERROR)
        elif exchange.unsent and exchange.send_window > 0:
            self.sending[exchange.stream] = exchange

    def priority_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 5 or not stream:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "PRIORITY of a wrong size, or of no stream")
        self.floods.control(self.server.now)

    def push_promise_frame(self, flags: int, stream: int, payload: bytes) -> None:
        raise Http2Error(Code.PROTOCOL_ERROR, "a client can't push")

    def rst_stream_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        if not stream or stream > self.last_stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "RST_STREAM of a stream that was not opened")
        self.floods.reset(self.server.now)
        exchange = self.exchanges.get(stream)
        if exchange is not None:
            self.forget_stream(exchange)
            self.tell(exchange)

    def bad_stream(self, exchange: Http2Exchange, why: str, code: Code = Code.PROTOCOL_ERROR) -> None:
        self.server.refusals.note(self.peer, f"a stream: {why}", self.server.now)
        self.floods.reset(self.server.now)
        self.reset(exchange, code)
