"""WebSockets (RFC 6455) for ASGI applications: the `websockets` library reads and writes frames, this moves the bytes.

The connection is taken over from the server when the application accepts (`Exchange.upgrade`); what it refuses before that gets
an HTTP answer (`websocket.http.response`, or 403). Pings are answered here, fragments become whole messages, and nothing is
compressed.

Bounds. A message has at most `MAX_MESSAGE_BYTES`, which is found by its first frame that says so, before its bytes have come:
1009. All sockets together hold at most `MAX_UNFINISHED_BYTES` of messages that are not whole yet (the first `SMALL_BYTES` of
each are not counted); a socket that needs more than is left is ended with 1013. Whole messages wait for the application until
there are `MAX_WAITING`, or `MAX_WAITING_BYTES` of them; then no more is read. Nor is while the peer does not read what it is
sent (`MAX_UNSENT_BYTES`), so pings without end cost the peer, not the server. Frames are taken apart `STEP_BYTES` at a time and
at most `FRAMES_A_TURN` in one turn of the event loop, so those of a flood with empty ones let others have their turn.

The end: our close frame, then `CLOSE_WITHIN_S` for the peer's; what it still says is read and dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.utils import accept_key

from headrace.web.answer_head import header_lines, status_line
from headrace.web.asgi import Answer, App, Headers, Message, scope_of
from headrace.web.connection import reset
from headrace.web.refusals import Refusals

if TYPE_CHECKING:
    from headrace.web.exchange import Exchange

logger = logging.getLogger("headrace.web")

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_UNFINISHED_BYTES = 64 * 1024 * 1024
SMALL_BYTES = 64 * 1024
MAX_WAITING = 16
MAX_WAITING_BYTES = 64 * 1024
MAX_UNSENT_BYTES = 64 * 1024
STEP_BYTES = 4096
FRAMES_A_TURN = 256
CLOSE_WITHIN_S = 2.0

_CONNECT: Message = {"type": "websocket.connect"}


class Sockets:
    """All WebSockets of a server, and what they may hold together."""

    def __init__(self) -> None:
        self.unfinished_bytes = 0
        self._refusals = Refusals()

    async def serve(self, exchange: Exchange, app: App) -> None:
        socket = WebSocket(exchange, self)
        scope = scope_of(exchange, "websocket")
        offered = exchange.header(b"sec-websocket-protocol")
        scope["subprotocols"] = [] if offered is None else [each.strip() for each in offered.decode("latin-1").split(",")]
        scope["extensions"] = {"websocket.http.response": {}}
        scope["headrace.exchange"] = socket  # whoever cuts it off means what it is now
        code = CloseCode.NORMAL_CLOSURE
        try:
            await app(scope, socket.receive, socket.send)
        except Exception:
            logger.exception("the application failed")
            code = CloseCode.INTERNAL_ERROR
        socket.end(code)

    def complain(self, peer: tuple[str, int], why: str) -> None:
        self._refusals.note(peer, why, asyncio.get_running_loop().time())


class WebSocket(asyncio.Protocol):
    def __init__(self, exchange: Exchange, sockets: Sockets) -> None:
        self._exchange = exchange
        self._sockets = sockets
        self._refusal = Answer(exchange, "websocket.http.response", self._disconnected)
        self._transport: asyncio.Transport | None = None
        self._frames = Protocol(Side.SERVER, max_size=MAX_MESSAGE_BYTES, logger=logger)
        self._connecting = True
        self._gone = exchange.gone  # nothing will come from the peer any more
        self._lost = False
        self._unparsed: deque[bytes] = deque()
        self._again: asyncio.Handle | None = None
        self._reading = True
        self._fragments = bytearray()
        self._text = True  # what the fragments are
        self._counted = 0  # of what all sockets hold
        self._waiting: deque[tuple[Message, int]] = deque()
        self._waiting_bytes = 0
        self._wake: asyncio.Future[None] | None = None
        self._full: asyncio.Future[None] | None = None  # the peer does not read
        self._timer: asyncio.TimerHandle | None = None
        exchange.on_gone = self._disconnected

    def known_as(self, user: str) -> None:
        self._exchange.known_as(user)

    # --- what the application sees

    async def receive(self) -> Message:
        if self._connecting:
            self._connecting = False
            return _CONNECT
        while not self._waiting and not self._gone:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        if not self._waiting:
            closed = self._frames.close_rcvd
            return {
                "type": "websocket.disconnect",
                "code": CloseCode.ABNORMAL_CLOSURE.value if closed is None else closed.code,
                "reason": "" if closed is None else closed.reason,
            }
        message, size = self._waiting.popleft()
        self._waiting_bytes -= size
        if self._unparsed and self._again is None:
            self._parse()
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self._transport is None:
            if self._gone:
                return
            if kind == "websocket.accept":
                self._accept(message)
            elif kind == "websocket.close":
                await self._refusal.send({"type": "websocket.http.response.start", "status": 403})
                await self._refusal.send({"type": "websocket.http.response.body"})
            else:
                await self._refusal.send(message)
            return
        if self._frames.state is not State.OPEN:
            return
        if kind == "websocket.send":
            text = message.get("text")
            if text is not None:
                self._frames.send_text(text.encode())
            else:
                self._frames.send_binary(message["bytes"])
        elif kind == "websocket.close":
            self._frames.send_close(message.get("code", CloseCode.NORMAL_CLOSURE), message.get("reason") or "")
        else:
            raise RuntimeError(f"{kind} is out of turn")
        self._flush()
        while self._full is not None and not self._lost:
            await asyncio.shield(self._full)

    def end(self, code: int) -> None:
        """The application has."""
        if self._transport is None:
            self._refusal.close()
        elif self._frames.state is State.OPEN:
            self._frames.send_close(code)
            self._flush()

    def cut(self) -> None:
        """Ends the connection at once."""
        if self._transport is None:
            self._exchange.cut()
        elif not self._lost:
            reset(self._transport)

    def _accept(self, message: Message) -> None:
        key = (self._exchange.header(b"sec-websocket-key") or b"").strip().decode("latin-1")
        headers: Headers = [
            (b"upgrade", b"websocket"),
            (b"sec-websocket-accept", accept_key(key).encode()),
        ]
        if message.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", message["subprotocol"].encode()))
        headers += [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        self._exchange.on_gone = None
        self._transport, rest = self._exchange.upgrade(self)
        self._transport.set_write_buffer_limits(MAX_UNSENT_BYTES)
        self._transport.write(b"%b%bconnection: Upgrade\r\n\r\n" % (status_line(101), header_lines(headers)))
        if rest:
            self.data_received(rest)

    # --- what the peer sends

    def data_received(self, data: bytes) -> None:
        self._unparsed.append(data)
        if self._again is None:
            self._parse()

    def _parse(self) -> None:
        """As much as may wait."""
        self._again = None
        frames = 0
        while self._unparsed and not self._has_enough():
            data = self._unparsed.popleft()
            if len(data) > STEP_BYTES:
                self._unparsed.appendleft(data[STEP_BYTES:])
                data = data[:STEP_BYTES]
            self._frames.receive_data(data)
            for frame in self._frames.events_received():
                self._take(cast("Frame", frame))
                frames += 1
            self._look_at_size()
            self._flush()
            if frames > FRAMES_A_TURN and self._unparsed:
                self._again = asyncio.get_running_loop().call_soon(self._parse)
                break
        self._read(not self._unparsed)

    def _has_enough(self) -> bool:
        if self._frames.state is not State.OPEN:  # what comes now is dropped
            return False
        return len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES or self._full is not None

    def _read(self, wanted: bool) -> None:
        if wanted == self._reading or self._lost:
            return
        assert self._transport is not None
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _take(self, frame: Frame) -> None:
        if self._frames.state is not State.OPEN:
            return
        opcode = frame.opcode
        if opcode is Opcode.CONT:
            self._fragments += frame.data
            if not frame.fin:
                return
            data, self._fragments = bytes(self._fragments), bytearray()
        elif opcode in (Opcode.TEXT, Opcode.BINARY):
            self._text = opcode is Opcode.TEXT
            if not frame.fin:
                self._fragments += frame.data
                return
            data = bytes(frame.data)
        else:
            return
        message: Message = {"type": "websocket.receive"}
        if self._text:
            try:
                message["text"] = data.decode()
            except UnicodeDecodeError:
                self._frames.fail(CloseCode.INVALID_DATA, "not UTF-8")
                return
        else:
            message["bytes"] = data
        self._waiting.append((message, len(data)))
        self._waiting_bytes += len(data)
        self._woken()

    def _look_at_size(self) -> None:
        """What is not whole yet counts, as far as it is not small."""
        unfinished = len(self._fragments) + len(self._frames.reader.buffer)
        counted = unfinished - SMALL_BYTES if unfinished > SMALL_BYTES and self._frames.state is State.OPEN else 0
        if counted != self._counted:
            self._sockets.unfinished_bytes += counted - self._counted
            self._counted = counted
            if self._sockets.unfinished_bytes > MAX_UNFINISHED_BYTES:
                self._frames.fail(CloseCode.TRY_AGAIN_LATER, "too many long messages at once")

    # --- what the peer is sent

    def _flush(self) -> None:
        assert self._transport is not None
        for data in self._frames.data_to_send():
            if not data:
                self._half_close()
            elif not self._transport.is_closing():  # the peer may have gone, and we were not told yet
                self._transport.write(data)
        if self._frames.close_expected():
            self._closing()

    def _half_close(self) -> None:
        assert self._transport is not None
        if not self._lost and not self._transport.is_closing():
            self._transport.write_eof()

    def _closing(self) -> None:
        if self._timer is not None:
            return
        self._timer = asyncio.get_running_loop().call_later(CLOSE_WITHIN_S, self.cut)
        why = self._frames.parser_exc
        if isinstance(why, PayloadTooBig):
            self._sockets.complain(self._exchange.peer, f"its message is too long: it may have {MAX_MESSAGE_BYTES} bytes")
        elif isinstance(why, ProtocolError):
            self._sockets.complain(self._exchange.peer, str(why))
        self._fragments = bytearray()
        self._look_at_size()
        if self._unparsed and self._again is None:  # the peer's close may be among it
            self._again = asyncio.get_running_loop().call_soon(self._parse)
        if self._frames.eof_sent:  # both have said goodbye, or the peer broke the rules
            self._disconnected()

    def _disconnected(self) -> None:
        self._gone = True
        self._woken()

    def _woken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # --- what happens to the connection

    def pause_writing(self) -> None:
        if self._full is None:
            self._full = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        full, self._full = self._full, None
        if full is not None:
            full.set_result(None)
        if self._unparsed and self._again is None and not self._lost:
            self._parse()

    def eof_received(self) -> bool:
        return False  # the connection is closed

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        if self._again is not None:
            self._again.cancel()
        self._sockets.unfinished_bytes -= self._counted
        self._counted = 0
        self._unparsed.clear()
        self._fragments = bytearray()
        self.resume_writing()
        self._disconnected()
