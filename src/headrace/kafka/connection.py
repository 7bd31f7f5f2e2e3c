"""The socket shell of one Kafka connection: bytes in, frames to the APIs, answers out in the order of the requests.

Reading. All connections of a listener share one buffer: a read fills it, its whole frames are handled on the spot, and only
what is left of a frame is copied to a buffer of the connection's own. That one grows as bytes arrive, never because a length
was announced, and never beyond the frame. The event loop reads a connection again and again as long as it fills its buffer:
after `TURN_BYTES` in a row it is the others' turn.

Answering. Requests are handled as they come; an answer that must wait (for the disk, for data, for a group) takes a slot, and
later answers queue behind it. Fetch is handled only when no answer is waiting, because its answer may be large. What the
kernel can send by itself goes past the transport (`file_sending`).

Bounds, and what happens there: a frame above `socket.request.max.bytes` closes the connection, and one that is no Produce above
`MAX_OTHER_BYTES` too, because decoding costs many times its size. `MAX_WAITING` answers in slots,
or a peer that does not read its answers: no more requests are read until that changes. The same when the log is backlogged,
and while a client that is above its quota has to pause (`throttle`).
All buffers of unfinished frames together above `FRAMES_LIMIT_BYTES`: connections that need more wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, cast

from headrace.kafka.api import fetch, produce
from headrace.kafka.codec.headers import skip_header_tags
from headrace.kafka.codec.wire import MalformedMessage
from headrace.kafka.file_sending import FileSender
from headrace.kafka.messages import MESSAGES
from headrace.kafka.requests import handle_request
from headrace.kafka.throttle import Throttle
from headrace.log.port import Buffer, FilePart
from headrace.record import MalformedRequest, parse_sole_batch
from headrace.times import Times

if TYPE_CHECKING:
    from headrace.kafka.listener import KafkaListener

MAX_WAITING = 128
MAX_OTHER_BYTES = 16 * 1024 * 1024
WRITE_HIGH_BYTES = 1024 * 1024
TURN_BYTES = 256 * 1024
_FIRST_OWN_BYTES = 64 * 1024
_HEAD = Struct(">hhih")
_LENGTH = Struct(">i")
_PRODUCE, _FETCH = 0, 1
(_PRODUCE_FIRST, _PRODUCE_LAST), _PRODUCE_FLEXIBLE = MESSAGES[_PRODUCE].versions, 9
(_FETCH_FIRST, _FETCH_LAST), _FETCH_FLEXIBLE = MESSAGES[_FETCH].versions, 12

Piece = Buffer | FilePart


class Slot:
    """The place of an answer that is not there yet, and when its request came."""

    __slots__ = ("began", "pieces", "times")

    def __init__(self, times: Times, began: float) -> None:
        self.times = times
        self.began = began
        self.pieces: Sequence[Piece] | None = None


class KafkaConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: KafkaListener) -> None:
        self.listener = listener
        self.broker = listener.broker
        self._log = listener.broker.log
        self.peer = ""
        self.peer_host = ""
        self.opened_s = self.last_active = 0.0
        self._shared = listener.read_buffer
        self._shared_view = memoryview(self._shared)
        self._max_frame = listener.max_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._own: bytearray | None = None  # an unfinished frame, or requests that have to wait
        self._filled = 0
        self._held = False  # whole frames wait in `_own`
        self._slots: deque[Slot] = deque()
        self._files: FileSender | None = None  # while it sends
        self._ends = False  # when everything is sent
        self._peer_reads = True
        self._paused = False
        self._turn_bytes = 0  # in reads that filled their buffers, one after the other
        self._turn_over = False  # not read before the others were
        self.throttle: Throttle | None = None  # only while there are quotas for clients
        self._times = listener.produce_times  # of requests like the one that is being handled
        self.requests = 0
        self.software = ("", "")  # the name and version of the client (KIP-511)
        self.client_id = ""  # as of the last request that was neither Produce nor Fetch
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_close: list[Callable[[], None]] = []

    # --- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        address = transport.get_extra_info("peername")
        self.peer_host, port = address[:2] if address else ("unknown", 0)
        self.peer = f"{self.peer_host}:{port}"
        self.opened_s = self.last_active = self.listener.now()
        refused = self.listener.admit(self)
        if refused:
            self.refuse(refused)
            return
        self.obey_quotas()
        wait_ms = self.listener.connected_too_often(self)
        if wait_ms:  # as in Kafka: it is left hanging before it is closed, so that it doesn't come back at once
            self.stop_reading()
            self.broker.clock.call_later(wait_ms / 1000, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._files is not None:
            self._files.close()
        self.listener.forget(self)
        self._drop_own()
        if self.throttle is not None:
            self.throttle.close()
        for task in self._tasks:
            task.cancel()
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            callback()
        self._slots.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._own is None:
            return self._shared_view
        return memoryview(self._own)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        listener = self.listener
        self.last_active = listener.now()
        if listener.few_peers:
            listener.attention.heard(self)
        own = self._own
        if own is None:
            self._take_frames(self._shared_view, nbytes)
            full = nbytes == len(self._shared)
        else:
            self._filled += nbytes
            full = self._filled == len(own)
            if full:
                self._continue_own()
        if not full:
            self._turn_bytes = 0
            return
        self._turn_bytes += nbytes
        if self._turn_bytes >= TURN_BYTES:
            self._end_turn()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._peer_reads = False
        self._pause()

    def resume_writing(self) -> None:
        self._peer_reads = True
        self.go_on()

    # --- frames

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Handles the whole frames in view[:end] and keeps the rest."""
        start = 0
        while end - start >= 4:
            size = _LENGTH.unpack_from(view, start)[0]
            if not 0 < size <= self._max_frame:
                self.refuse(f"a frame of {size} bytes was announced")
                return
            stop = start + 4 + size
            if stop > end:
                break
            if not self._handle(view, start + 4, stop):
                self._hold(view, start, end)
                return
            self.requests += 1
            if self._transport is None:
                return
            start = stop
        if start < end:
            self._keep(view, start, end)

    def _keep(self, view: memoryview, start: int, end: int) -> None:
        """Moves the beginning of a frame to a buffer of its own."""
        have = end - start
        total = 4 + _LENGTH.unpack_from(view, start)[0] if have >= 4 else 4
        own = bytearray(min(total, max(2 * have, _FIRST_OWN_BYTES)))  # never full: `total` is more than we have
        own[:have] = view[start:end]
        self._own, self._filled = own, have
        self.listener.frame_bytes += len(own)

    def _continue_own(self) -> None:
        """The connection's own buffer is full: grow it, or handle the frame in it."""
        own = cast(bytearray, self._own)
        if self._filled == 4:
            size = _LENGTH.unpack_from(own)[0]
            if not 0 < size <= self._max_frame:
                self.refuse(f"a frame of {size} bytes was announced")
                return
        total = 4 + _LENGTH.unpack_from(own)[0]
        if self._filled < total:
            if self._filled >= 6 and total > MAX_OTHER_BYTES and int.from_bytes(own[4:6], "big") != _PRODUCE:
                self.refuse(f"a frame of {total - 4} bytes was announced for an API that needs no such")
                return
            self._grow(min(total, max(_FIRST_OWN_BYTES, 2 * len(own))))
            return
        filled = self._filled
        self._drop_own()
        self._take_frames(memoryview(own), filled)

    def _grow(self, size: int) -> None:
        own = cast(bytearray, self._own)
        more = size - len(own)
        if not self.listener.may_buffer(more):
            self._pause()
            self.listener.wait_for_room(self)
            return
        grown = bytearray(size)
        grown[: self._filled] = own
        self._own = grown
        self.listener.frame_bytes += more

    def room_again(self) -> None:
        """The listener has room for larger frames again."""
        if self._transport is not None and self._own is not None and not self._held and not self._muted:
            self._resume()
            self._continue_own()

    def _hold(self, view: memoryview, start: int, end: int) -> None:
        """Keeps requests that can't be handled yet, and reads no more."""
        own = bytearray(view[start:end])
        self._drop_own()
        self._own, self._filled, self._held = own, len(own), True
        self.listener.frame_bytes += len(own)
        self._pause()

    def _drop_own(self) -> None:
        if self._own is not None:
            self.listener.release(len(self._own))
            self._own, self._filled, self._held = None, 0, False

    def go_on(self) -> None:
        """Something that was in the way has changed."""
        if self._transport is None or not self._peer_reads or self._muted:
            return
        if self._held:
            own, filled = cast(bytearray, self._own), self._filled
            self._drop_own()
            self._take_frames(memoryview(own), filled)
            if self._held or self._transport is None or self._muted:
                return
        if self._peer_reads and len(self._slots) < MAX_WAITING and not self._log.backlogged:
            self._resume()

    def _pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and self._paused and not self._transport.is_closing():
            self._paused = False
            if not self._turn_over:
                self._transport.resume_reading()

    def _end_turn(self) -> None:
        self._turn_bytes = 0
        if self._transport is not None and not self._paused:
            self._turn_over = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_over = False
        if self._transport is not None and not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- quotas

    def obey_quotas(self) -> None:
        """Quotas have changed, or the connection is new."""
        quotas = self.broker.quotas
        if self.throttle is None and quotas.enforced:
            self.throttle = Throttle(self, quotas)
        elif self.throttle is not None and not quotas.enforced and not self.throttle.muted:
            self.throttle = None

    @property
    def _muted(self) -> bool:
        return self.throttle is not None and self.throttle.muted

    def stop_reading(self) -> None:
        self._pause()

    def unmuted(self) -> None:
        """The pause that its client owed is over."""
        self.last_active = self.listener.now()
        self.go_on()
        if self._own is not None and not self._held and self._filled == len(self._own):
            self.room_again()

    # --- requests

    def _handle(self, view: memoryview, start: int, stop: int) -> bool:
        """Handles one request; False when it has to wait. What must be refused, or has more to it than one batch for one
        partition, is for the second half."""
        if self.throttle is None and len(self._slots) < MAX_WAITING and not self._log.backlogged:
            sole = parse_sole_batch(view, start, stop)
            if sole is not None:
                self._times = self.listener.produce_times
                if produce.handle_sole(self, view, sole):
                    return True
        try:
            if stop - start < 10:
                raise MalformedMessage("a request shorter than its header")
            key, version, correlation, client_length = _HEAD.unpack_from(view, start)
            if stop - start > MAX_OTHER_BYTES and key != _PRODUCE:
                raise MalformedMessage(f"{stop - start} bytes for API {key}")
            if self.throttle is not None and not self.throttle.begin(view, start, stop, client_length):
                return False
            if key == _PRODUCE and _PRODUCE_FIRST <= version <= _PRODUCE_LAST:
                if len(self._slots) >= MAX_WAITING or self._log.backlogged:
                    self._wait_for_log()
                    return False
                body = start + 10 + (client_length if client_length > 0 else 0)
                if version >= _PRODUCE_FLEXIBLE:
                    body = body + 1 if body < stop and view[body] == 0 else skip_header_tags(view[:stop], body)
                self._times = self.listener.produce_times
                produce.handle(self, view, body, stop, version, correlation)
            elif key == _FETCH and _FETCH_FIRST <= version <= _FETCH_LAST:
                if self._slots or not self._peer_reads:
                    return False
                body = start + 10 + (client_length if client_length > 0 else 0)
                if version >= _FETCH_FLEXIBLE:
                    body = body + 1 if body < stop and view[body] == 0 else skip_header_tags(view[:stop], body)
                self._times = self.listener.fetch_times
                fetch.handle(self, view, body, stop, version, correlation)
            else:
                if len(self._slots) >= MAX_WAITING or not self._peer_reads:
                    return False
                if key in MESSAGES:
                    self._times = self.listener.traffic.requests[MESSAGES[key].name]
                handle_request(self, key, version, correlation, bytes(view[start:stop]))
        except (MalformedMessage, MalformedRequest) as error:
            self.refuse(f"a malformed request: {error}")
        return True

    def _wait_for_log(self) -> None:
        if self._log.backlogged:
            self._log.after_sync(lambda error: self.go_on())

    def keep(self, task: asyncio.Task[None]) -> None:
        """Work for this connection that ends with it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- answers

    def take_slot(self) -> Slot:
        slot = Slot(self._times, self.last_active)
        self._slots.append(slot)
        self.listener.attention.rest()
        if len(self._slots) >= MAX_WAITING:
            self._pause()
        return slot

    def respond(self, pieces: Sequence[Piece], slot: Slot | None = None) -> None:
        """Sends an answer, or keeps it until those before it are there."""
        transport = self._transport
        if transport is None:
            return
        slots = self._slots
        if slot is None:
            self._times.add(self.listener.now() - self.last_active)
            if slots:
                slot = Slot(self._times, self.last_active)
                slot.pieces = pieces
                slots.append(slot)
            else:
                self._write(transport, pieces)
            return
        slot.pieces = pieces
        slot.times.add(self.listener.now() - slot.began)
        if self.listener.few_peers:
            self.listener.attention.answered()
        while slots and slots[0].pieces is not None:
            ready = slots.popleft().pieces
            assert ready is not None
            self._write(transport, ready)
        if self._paused or self._held:
            self.go_on()

    def _write(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        if self._files is not None:
            self._files.send(pieces)
        elif self._transport is None:  # it has failed at an answer before this one
            return
        elif len(pieces) == 1:
            transport.write(pieces[0])  # type: ignore[arg-type]
        elif any(isinstance(piece, FilePart) for piece in pieces):
            self._send_files(transport, pieces)
        else:
            transport.writelines(pieces)  # type: ignore[arg-type]

    def _send_files(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        try:
            if transport.get_write_buffer_size() or transport.is_closing():
                raise BlockingIOError
            files = FileSender(transport.get_extra_info("socket").fileno(), self._files_gone, self.close)
        except OSError:  # not now: as if there were no files
            self._send_copies(transport, pieces)
            return
        files.send(pieces)
        if files.busy:
            self._files = files
            self.pause_writing()

    def _send_copies(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        try:
            transport.writelines([piece.read() if isinstance(piece, FilePart) else piece for piece in pieces])
        except OSError:  # nothing was sent, and nothing can be
            self.close()

    def _files_gone(self) -> None:
        self._files = None
        if self._ends and self._transport is not None:
            self._transport.close()
        else:
            self.resume_writing()

    @property
    def in_mid_frame(self) -> bool:
        """It could go on sending its request, and doesn't."""
        return self._own is not None and not self._held and not self._muted

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def refuse(self, why: str) -> None:
        """One line in the log, and the connection is closed."""
        self.listener.log_refusal(self.peer, why)
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def close_gently(self) -> None:
        """Sends what is written, then closes."""
        if self._files is not None:
            self._ends = True
        elif self._transport is not None:
            self._transport.close()
