"""A connection of HTTP/2 with prior knowledge (RFC 9113): frames out of a stream of bytes, streams to exchanges, and back.

At most `frames` frames are worked on in one turn of the event loop; while more of them wait, and while the peer does not read,
nothing is read. What it makes us send is in `http2_sending`.

An error of a stream resets it, an error of the connection says GOAWAY and closes (RFC 9113, 5.4). `http2_floods` says what is
too much. Streams that are opened beyond `streams`, or after GOAWAY, are refused and may be tried again elsewhere. Trailers of
requests are checked and dropped. There is no push and no priority.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.web.exchange import Address, Header
from headrace.web.hpack_decoding import BadBlock, Decoder, TooLarge
from headrace.web.http2_control import Http2Control
from headrace.web.http2_exchange import Http2Exchange
from headrace.web.http2_frames import (
    CONTINUATION,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    HEAD_BYTES,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_BYTES,
    MAX_HEADER_LIST_SIZE,
    MOST_WINDOW,
    PING,
    PREFACE,
    SETTINGS,
    WITH_PRIORITY,
    Code,
    Http2Error,
    frame,
    goaway,
    reset,
    settings,
    unpadded,
    window_update,
)
from headrace.web.http2_head import BadStream, check_trailers, read_head

if TYPE_CHECKING:
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.web")

_PING = b"headrace"


class Http2Connection(Http2Control):
    protocol_name = "HTTP/2"

    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        super().__init__(server, transport, peer)
        limits = server.limits
        self._decoder = Decoder(limits.head_bytes)
        self._unread = b""
        self._preface_left = len(PREFACE)
        self._head: tuple[int, int, list[bytes]] | None = None  # stream, flags and pieces of one that is not complete
        self._head_bytes = 0
        self._work_later: asyncio.Handle | None = None
        self._pinged = False
        self._frames_seen = 0
        self._unfinished = (-1, 0.0)  # how many frames there were when one was found incomplete, and when that was
        self._took: tuple[Callable[[int, int, bytes], None], ...] = (
            self._data,
            self._headers,
            self.priority_frame,
            self.rst_stream_frame,
            self.settings_frame,
            self.push_promise_frame,
            self.ping_frame,
            self.goaway_frame,
            self.window_update_frame,
            self._continuation,
        )
        self.send(
            settings(
                (
                    (ENABLE_PUSH, 0),
                    (MAX_CONCURRENT_STREAMS, limits.streams),
                    (INITIAL_WINDOW_SIZE, limits.window_bytes),
                    (MAX_HEADER_LIST_SIZE, limits.head_bytes),
                )
            )
            + window_update(0, limits.connection_window_bytes - FIRST_WINDOW)
        )

    # --- bytes come

    def data_received(self, data: bytes) -> None:
        if self.over:
            self.throw_away(data)
            return
        self.moved_s = self.server.now
        self._pinged = False
        if self._preface_left:  # `first_bytes` has seen all of it
            data = data[self._preface_left :]
            self._preface_left = 0
        self._unread = self._unread + data if self._unread else data
        if self._work_later is None:
            self._work()

    def _work(self) -> None:
        self._work_later = None
        if self.over:
            return
        self.working = True
        try:
            more = self._frames()
        except Http2Error as error:
            self._fail(error)
            more = False
        except Exception:
            logger.exception("a connection of HTTP/2 failed")
            self._fail(Http2Error(Code.INTERNAL_ERROR, "we failed"))
            more = False
        finally:
            self.working = False
        self.flush()
        if more and not self.over:
            self._work_later = self.loop.call_soon(self._work)
        self._pause_or_resume()

    def _frames(self) -> bool:
        """Works on the frames that are complete. True if there are more."""
        data = self._unread
        at, size = 0, len(data)
        for _ in range(self.server.limits.frames):
            if size - at < HEAD_BYTES:
                break
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > MAX_FRAME_BYTES:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "a frame is too long")
            end = at + HEAD_BYTES + length
            if end > size:
                break
            kind = data[at + 3]
            stream = int.from_bytes(data[at + 5 : at + 9], "big") & MOST_WINDOW
            if self._head is not None and (kind != CONTINUATION or stream != self._head[0]):
                raise Http2Error(Code.PROTOCOL_ERROR, "a head is not complete, and something else comes")
            if not self.settings_seen and kind != SETTINGS:
                raise Http2Error(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            if kind < len(self._took):
                self._took[kind](data[at + 4], stream, data[at + HEAD_BYTES : end])
            else:
                self.floods.control(self.server.now)  # to be ignored (RFC 9113, 5.5)
            at = end
            self._frames_seen += 1
            if self.over:
                return False
        self._unread = data = data[at:]
        if len(data) < HEAD_BYTES:
            return False
        return len(data) >= HEAD_BYTES + (data[0] << 16 | data[1] << 8 | data[2])

    def _pause_or_resume(self) -> None:
        if (self._work_later is not None or self.blocked) and not self.over:
            self.pause_reading()
        else:
            self.resume_reading()

    # --- frames of the peer

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream & 1:
            raise Http2Error(Code.PROTOCOL_ERROR, "a stream with an even number")
        block = unpadded(flags, payload)
        if flags & WITH_PRIORITY:
            if len(block) < 5:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "HEADERS without the priority it announces")
            block = block[5:]
        self._head_bytes = len(block)
        if flags & END_HEADERS:
            self._head_complete(stream, flags, block)
        else:
            self._head = (stream, flags, [block])

    def _continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._head is None:
            raise Http2Error(Code.PROTOCOL_ERROR, "CONTINUATION of nothing")
        stream, head_flags, pieces = self._head
        pieces.append(payload)
        self._head_bytes += len(payload)
        limits = self.server.limits
        if len(pieces) > limits.continuations or self._head_bytes > limits.head_bytes:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "the head of a request is too long")
        if flags & END_HEADERS:
            self._head = None
            self._head_complete(stream, head_flags, b"".join(pieces))

    def _head_complete(self, stream: int, flags: int, block: bytes) -> None:
        try:
            fields = self._decoder.decode(block)
        except BadBlock as error:
            raise Http2Error(Code.COMPRESSION_ERROR, f"a head that can't be decoded: {error}") from error
        except TooLarge as error:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "the head of a request is too long") from error
        exchange = self.exchanges.get(stream)
        if exchange is not None:
            self._trailers(exchange, flags, fields)
            return
        if stream <= self.last_stream:
            self.floods.control(self.server.now)
            self.send(reset(stream, Code.STREAM_CLOSED))
            return
        self.last_stream = stream
        if self.going_away or len(self.exchanges) >= self.server.limits.streams:
            self.floods.reset(self.server.now)
            self.send(reset(stream, Code.REFUSED_STREAM))
            return
        self.requests += 1
        try:
            head = read_head(fields)
        except BadStream as bad:
            self.server.refusals.note(self.peer, f"a stream: {bad}", self.server.now)
            self.floods.reset(self.server.now)
            self.send(reset(stream, Code.PROTOCOL_ERROR))
            return
        if not self.client:
            self.introduce(head.headers)
        exchange = self.exchanges[stream] = Http2Exchange(self, stream, head.method, head.target, head.headers)
        exchange._length = head.length
        exchange.expects = head.expects
        if len(head.headers) > self.server.limits.headers:
            exchange.respond(431, (), b"")
            return
        if flags & END_STREAM:
            if head.length > 0:
                self.bad_stream(exchange, "the body is shorter than its Content-Length")
                return
            exchange._complete = True
        try:
            self.server.handler(exchange)
        except Exception:
            self._failed(exchange)

    def _trailers(self, exchange: Http2Exchange, flags: int, fields: list[Header]) -> None:
        if exchange._complete:
            raise Http2Error(Code.STREAM_CLOSED, "a head behind the end of its stream")
        if not flags & END_STREAM:
            self.bad_stream(exchange, "a second head that is no trailer")
            return
        try:
            check_trailers(fields)
        except BadStream as bad:
            self.bad_stream(exchange, str(bad))
            return
        self._body_ended(exchange)

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self.receive_window -= size
        if self.receive_window < 0:
            raise Http2Error(Code.FLOW_CONTROL_ERROR, "it sends more than the window allows")
        if not size and not flags & END_STREAM:
            self.floods.control(self.server.now)
        body = unpadded(flags, payload)
        exchange = self.exchanges.get(stream)
        if exchange is None:
            if stream > self.last_stream or not stream & 1:
                raise Http2Error(Code.PROTOCOL_ERROR, "DATA of a stream that was not opened")
            self.floods.control(self.server.now)
            self.credit_connection(size)  # it may not know yet that the stream has ended
            return
        if exchange._complete:
            raise Http2Error(Code.STREAM_CLOSED, "DATA behind the end of its stream")
        exchange.receive_window -= size
        if exchange.receive_window < 0:
            self.credit_connection(size)
            self.bad_stream(exchange, "it sends more than the window of the stream allows", Code.FLOW_CONTROL_ERROR)
            return
        exchange.expects = False
        exchange.came_s = self.server.now
        exchange.received += len(body)
        exchange.outstanding += size
        if exchange._length >= 0 and exchange.received > exchange._length:
            self.bad_stream(exchange, "the body is longer than its Content-Length")
            return
        if size > len(body):
            self.credit(exchange, size - len(body))
        if body:
            try:
                fits = exchange._piece(body)
            except Exception:
                self._failed(exchange)
                return
            if not fits:
                self.server.refusals.note(self.peer, "the bodies of all requests together are too large", self.server.now)
                exchange._drop()
                exchange.respond(503, (), b"")
                return
            if exchange._whole is not None and exchange.connection is not None:
                self.credit(exchange, exchange.outstanding)
        if flags & END_STREAM and exchange.connection is not None:
            self._body_ended(exchange)

    def _body_ended(self, exchange: Http2Exchange) -> None:
        if exchange._length >= 0 and exchange.received != exchange._length:
            self.bad_stream(exchange, "the body is shorter than its Content-Length")
            return
        try:
            exchange._body_ended()
        except Exception:
            self._failed(exchange)

    # --- ends

    def _failed(self, exchange: Http2Exchange) -> None:
        """The handler raised."""
        logger.exception("%s %s failed", exchange.method.decode(), exchange.target.decode("latin-1"))
        if exchange.connection is None:
            return
        if exchange.answering:
            self.reset(exchange, Code.INTERNAL_ERROR)
        else:
            exchange.respond(500, (), b"")

    def _fail(self, error: Http2Error) -> None:
        self.server.refusals.note(self.peer, error.why, self.server.now)
        self.over = True
        self.send(goaway(self.last_stream, error.code))
        self.tell_all()
        self.flush()
        self._unread = b""
        self.linger()

    # --- the connection

    def pause_writing(self) -> None:
        self.blocked = True
        self.server.blocked.add(self)
        self._pause_or_resume()

    def resume_writing(self) -> None:
        self.blocked = False
        self.server.blocked.discard(self)
        for exchange in tuple(self.exchanges.values()):
            if exchange.waiters:
                exchange.wake()
        self.flush()
        self._pause_or_resume()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._unread = b""
        self._took = ()  # they hold on to this

    def tick(self, now: float) -> None:
        super().tick(now)
        if self.over or self.transport.is_closing():
            return
        limits = self.server.limits
        silent = now - self.moved_s
        if self._head is not None or self._unread or not self.settings_seen:
            if self._unfinished[0] != self._frames_seen:
                self._unfinished = (self._frames_seen, now)
            elif now - self._unfinished[1] > limits.head_s and not self.paused:
                self._fail(Http2Error(Code.NO_ERROR, "a frame takes too long"))
                return
        if not self.exchanges:
            if silent > self.server.idle_s:
                self.shut_down()
            return
        for exchange in tuple(self.exchanges.values()):
            if exchange.unsent:
                if now - exchange.sent_s > self.server.patience_s:
                    self.give_up(exchange, "it does not read what it is sent")
            elif now - exchange.came_s > limits.body_s and exchange.waits_for_body():
                self._too_late(exchange)
        if not self.paused and silent > limits.head_s:
            if silent > limits.head_s + limits.stalled_s:
                self.refuse("it does not answer a PING")
            elif not self._pinged:
                self._pinged = True
                self.send(frame(PING, 0, 0, _PING))

    def _too_late(self, exchange: Http2Exchange) -> None:
        self.server.refusals.note(self.peer, "a stream: the body of a request does not come", self.server.now)
        self.reset(exchange, Code.CANCEL)
