"""A connection of HTTP/1.1 (and 1.0): requests out of a stream of bytes, one after the other.

llhttp parses the heads and the chunks. It can't be stopped in the middle of what it is fed, so it is never fed beyond the end
of a request: heads and chunked bodies end with CR LF CR LF, and what comes is fed up to the next of these, each time looking
whether the request is complete. Bodies of a known length don't pass through it at all: they are taken as they come, and the
next request has a new parser (which costs less than feeding it a body would). So what stands behind a request is known, and
stays unparsed and unread until it is answered and the peer takes the answer: a pipeline is worked on in order, one at a
time, and costs what one read brought (256 KiB). After `STEPS` requests or pieces of chunked bodies the event loop serves
others.

Bytes that are no HTTP are answered 400 and the connection is closed; `http1_ending` says how connections end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from headrace.web.answer_head import CONTINUE
from headrace.web.exchange import Address, Header
from headrace.web.http1_ending import Http1Ending
from headrace.web.http1_exchange import Http1Exchange
from headrace.web.http1_head import BadHead, framing, origin_form

if TYPE_CHECKING:
    from headrace.web.server import WebServer

logger = logging.getLogger("headrace.web")

_END = b"\r\n\r\n"
_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"

STEPS = 128  # requests, or pieces of chunked bodies, of one connection in one turn of the event loop


class Http1Connection(Http1Ending):
    protocol_name = "HTTP/1.1"

    def __init__(self, server: WebServer, transport: asyncio.Transport, peer: Address) -> None:
        super().__init__(server, transport, peer)
        self.expects = False  # 100 Continue
        self.discard_left = -1  # of a body nobody wants; -1: it is wanted
        self._taking = False
        self._head_done = self._message_done = False
        self._tail = b""  # the end of what was fed, if CR LF CR LF may have begun in it
        self._url = b""
        self._headers: list[Header] = []
        self._chunks: list[bytes] = []
        self._parser = HttpRequestParser(self)

    # --- called by the parser

    def on_url(self, url: bytes) -> None:
        self._url = self._url + url if self._url else url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.rstrip()))  # llhttp leaves spaces behind a value

    def on_headers_complete(self) -> None:
        self._head_done = True
        self.keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        self._message_done = True

    # --- bytes come

    def data_received(self, data: bytes) -> None:
        if self.over:
            self.throw_away(data)
            return
        self.moved_s = self.server.now
        if self.rest:
            self.rest += data
            self.pause_reading()
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._taking = True
        try:
            self._requests(data)
        except BadHead as bad:
            self.refuse_bytes(bad.status, bad.why)
        except HttpParserError as error:
            self.refuse_bytes(400, str(error))
        finally:
            self._taking = False

    def _requests(self, data: bytes) -> None:
        at, size = 0, len(data)
        steps = 0
        while at < size and not self.over:
            steps += 1
            if steps > STEPS:
                self._go_on_later(data[at:])
                return
            if self.body_left > 0:
                piece = data if not at and size <= self.body_left else data[at : at + self.body_left]
                at += len(piece)
                self.body_left -= len(piece)
                self._body(piece)
                if not self.body_left:
                    self._body_ended()
            elif self.body_left < 0:
                end = self._cut(data, at)
                self._chunks_in(data[at:end])
                at = end
            elif self.exchange is not None or self.blocked:
                self.rest = data[at:]
                self.pause_reading()
                return
            else:
                end = self._cut(data, at)
                piece = data if not at and end == size else data[at:end]
                at = end
                self.head_bytes += len(piece)
                if self.head_bytes > self.server.limits.head_bytes:
                    raise BadHead(431, "the head of a request is too long")
                upgrade = False
                try:
                    self._parser.feed_data(piece)
                except HttpParserUpgrade:
                    upgrade = True
                if self._head_done:
                    at = self._begin(piece, upgrade, data, at)
                    if self.rest and self.exchange is None:  # it could have been upgraded, but was not
                        data, at, self.rest = self.rest, 0, b""
                        size = len(data)
                elif self.head_bytes == len(piece):
                    self.head_began_s = self.server.now

    def _cut(self, data: bytes, at: int) -> int:
        """Where the next CR LF CR LF ends, which may have begun in what was fed before, or the end of data."""
        tail = self._tail
        if tail:
            self._tail = b""
            found = (tail + data[at : at + 3]).find(_END)
            if found >= 0:
                return at + found + 4 - len(tail)
        found = data.find(_END, at)
        if found >= 0:
            return found + 4
        if data[-1] in b"\r\n":
            last = data[-3:] if len(data) - at >= 3 else (tail + data[at:])[-3:]
            self._tail = last
        return len(data)

    def _begin(self, head: bytes, upgrade: bool, data: bytes, at: int) -> int:
        """A head is complete and ends at `at`. Returns where the part of its body ends that is there already."""
        parser, server, headers, target = self._parser, self.server, self._headers, self._url
        self._headers, self._url = [], b""
        whole = self.head_bytes == len(head)
        self.head_bytes = 0
        self._head_done = self._message_done = False
        if len(headers) > server.limits.headers:
            raise BadHead(431, "too many headers")
        line = head.find(b"\r\n")  # of the request line, if the head came at once
        http11 = (whole and head[line - 8 : line] == b"HTTP/1.1") or _is_http11(parser.get_http_version())
        self.http11 = http11
        method = parser.get_method()
        length, self.expects = framing(headers, http11)
        if target[0] != 47:  # a slash
            target = origin_form(method, target, headers)
        if not self.requests:
            self.introduce(headers)
        self.requests += 1
        if server.stopping:
            self.keep_alive = False
        exchange = self.exchange = Http1Exchange(self, method, target, headers, upgrade and http11)
        if not length:
            exchange._complete = True
            if upgrade:
                self._parser = HttpRequestParser(self)
                self.rest = data[at:]
                at = len(data)
        elif length > 0:
            self._parser = HttpRequestParser(self)
            exchange._length = length
            end = at + length
            if end <= len(data):
                exchange._pieces.append(data[at:end])
                exchange._body_bytes = length
                exchange._complete = True
                self.expects = False
                at = end
            else:
                self.body_left = length
        else:
            self.body_left = length
            if upgrade:
                self._expect_chunks()
        try:
            server.handler(exchange)
        except Exception:
            self.failed(exchange)
        if self.rest and self.exchange is not None:
            self.pause_reading()
        return at

    def _expect_chunks(self) -> None:
        """llhttp takes what follows a request to upgrade for the other protocol, and not for chunks that we have to read."""
        keep_alive = self.keep_alive
        self._parser = HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED_HEAD)
        self._headers, self._url = [], b""
        self._head_done = False
        self.keep_alive = keep_alive

    def _chunks_in(self, piece: bytes) -> None:
        self.head_bytes += len(piece)
        self._parser.feed_data(piece)
        if self._chunks:
            chunks, self._chunks = self._chunks, []
            self.head_bytes = 0
            self._body(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        limits, trailers = self.server.limits, self._headers
        if len(trailers) > limits.headers or sum(len(name) + len(value) for name, value in trailers) > limits.head_bytes:
            raise BadHead(431, "trailers are too long")
        if self.head_bytes > limits.head_bytes:
            raise BadHead(431, "trailers or extensions of chunks are too long")
        if self._message_done:
            self._headers, self._url = [], b""  # trailers: nobody asks for them
            self.head_bytes = 0
            self._message_done = False
            self.body_left = 0
            self._body_ended()

    def _body(self, piece: bytes) -> None:
        self.expects = False
        exchange = self.exchange
        if exchange is None:
            self.discard_left -= len(piece)
            if self.discard_left < 0:
                self.close(linger=True)
            return
        try:
            fits = exchange._piece(piece)
        except Exception:
            self.failed(exchange)
            return
        if not fits:
            self.refuse_bytes(503, "the bodies of all requests together are too large")
        elif exchange._whole is None and exchange._body_bytes > self.server.limits.unread_bytes:
            self.pause_reading()

    def _body_ended(self) -> None:
        exchange = self.exchange
        if exchange is None:  # its answer went out before
            self.discard_left = -1
            return
        try:
            exchange._body_ended()
        except Exception:
            self.failed(exchange)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        del self._parser  # it holds on to this

    def failed(self, exchange: Http1Exchange) -> None:
        """The handler raised."""
        logger.exception("%s %s failed", exchange.method.decode(), exchange.target.decode("latin-1"))
        if exchange is self.exchange:
            if exchange.answering:
                self.cut()
            else:
                self.keep_alive = False
                exchange.respond(500, (), b"")

    # --- called by the exchange

    def want_body(self) -> None:
        if self.expects:
            self.expects = False
            self.write(CONTINUE)
        if not self.rest:
            self.resume_reading()

    def answered(self) -> None:
        """The answer of the exchange that is under way is complete."""
        self.exchange = None
        self.moved_s = self.server.now
        if self.over:
            return
        left = self.body_left
        if left and (self.expects or left > self.server.limits.discard_bytes):
            self.close(linger=True)
        elif not self.keep_alive or self.half_closed:
            self.close(linger=bool(left or self.rest))
        else:
            if left:
                self.discard_left = self.server.limits.discard_bytes
            if not self._taking and not self.blocked:
                self._go_on()

    def _go_on_later(self, rest: bytes) -> None:
        """Others have their turn first."""
        self.rest = rest
        self.pause_reading()
        asyncio.get_running_loop().call_soon(self._go_on_if_free)

    def _go_on_if_free(self) -> None:
        if not self.over and not self.lost and (self.body_left or (self.exchange is None and not self.blocked)):
            self._go_on()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.rest and not self._taking:
            self._go_on_if_free()

    def _go_on(self) -> None:
        rest, self.rest = self.rest, b""
        self.resume_reading()
        if rest:
            self._take(rest)

    def hand_over(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        if self.half_closed or self.transport.is_closing():
            raise ConnectionError("the peer is gone")
        self.upgraded = self.over = True
        self.exchange = None
        rest, self.rest = self.rest, b""
        self.transport.set_protocol(protocol)
        self.resume_reading()
        return self.transport, rest


def _is_http11(version: str) -> bool:
    if version == "1.1":
        return True
    if version == "1.0":
        return False
    raise BadHead(505, "a version of HTTP we don't know")
