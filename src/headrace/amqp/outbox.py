"""What a connection has to send: frames gather here and go out with one write at the end of the event loop's turn. That write
is made here: the transport would make it a little later, behind whatever else the turn still has to do.

Bounds: `FULL_BYTES` that were not sent yet, here or in the transport: consumers of the connection get nothing more, and their
queues are woken when there is room again. `LIMIT_BYTES`: whatever it asks for is not read any more either.
A peer that takes nothing of what waits for it for `SEND_TIMEOUT_S` is given up, and what it held goes to others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.queues.turns import Turns

FULL_BYTES = 1024 * 1024
LIMIT_BYTES = 16 * 1024 * 1024
SEND_TIMEOUT_S = 30.0  # RabbitMQ's, for a peer that takes nothing of what it is sent


class Outbox:
    def __init__(self, turns: Turns, too_much: Callable[[], None]) -> None:
        self.full = False  # no room for deliveries
        self.sent_bytes = 0
        self.sent = False  # since the last look of whoever sends heartbeats
        self._turns = turns
        self._too_much = too_much
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._frames: list[bytes] = []
        self._bytes = 0
        self._peer_reads = True
        self._taken = 0  # bytes that have left for the peer, as of the last tick
        self._taken_at = 0.0
        self._starved: set[AnyQueue] = set()

    @property
    def unsent_bytes(self) -> int:
        return self._bytes + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._descriptor = transport.get_extra_info("socket").fileno()
        transport.set_write_buffer_limits(high=FULL_BYTES)

    def close(self) -> None:
        self._transport = None
        self.full = True
        self._frames.clear()
        self._starved.clear()

    def write(self, frames: bytes) -> None:
        if not self._frames:
            self._turns.flush_later(self)
        self._frames.append(frames)
        self._bytes += len(frames)
        if self._bytes >= FULL_BYTES:
            self.full = True

    def flush(self) -> None:
        frames, transport = self._frames, self._transport
        if not frames or transport is None:
            return
        self._frames = []
        self.sent_bytes += self._bytes
        self._bytes = 0
        self.sent = True
        self._send(transport, frames[0] if len(frames) == 1 else b"".join(frames))
        if self._peer_reads:
            if self.full or self._starved:
                self._feed()
        elif transport.get_write_buffer_size() > LIMIT_BYTES:
            self._too_much()

    def _send(self, transport: asyncio.Transport, data: bytes) -> None:
        if transport.get_write_buffer_size() or transport.is_closing():  # closing, its descriptor may be another's
            transport.write(data)
            return
        try:
            sent = os.write(self._descriptor, data)
        except OSError:  # there is no room, or nobody: the transport knows what to do then
            sent = 0
        if sent < len(data):
            transport.write(data[sent:] if sent else data)

    def starve(self, queue: AnyQueue) -> None:
        """A consumer of this queue had no room because there is too much to send."""
        self._starved.add(queue)

    def pause(self) -> None:
        self._peer_reads = False
        self.full = True

    def is_stuck(self, now: float) -> bool:
        """The peer has taken nothing for too long. Time comes in ticks, see `listener`."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        taken = self.sent_bytes - waiting
        if not waiting or taken != self._taken:
            self._taken, self._taken_at = taken, now
        return now - self._taken_at > SEND_TIMEOUT_S

    def resume(self) -> None:
        self._peer_reads = True
        self._feed()

    def _feed(self) -> None:
        if self._bytes >= FULL_BYTES or self._transport is None:
            return
        self.full = False
        if self._starved:
            starved, self._starved = self._starved, set()
            for queue in starved:
                queue.wake()
