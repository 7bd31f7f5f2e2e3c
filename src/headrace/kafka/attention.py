"""Staying awake for a moment: the event loop polls instead of sleeping while requests come in quick succession.

A client that waits for each answer sends its next request within microseconds. If the loop goes to sleep in between, waking
it costs more than the request itself: the processor has to leave its idle state, on a virtual machine through the host. So
after a request that followed another closely, and after an answer that had to wait for the disk, the loop is kept turning for
a short while.

It rests while the disk is at work, but for a peer that talks alone: one that has sent a request at once after its answer, with
nobody heard in between. Then the only thing that can happen is that the disk is done, and to notice that at once makes a tenth
more requests. Where several talk, the processor is worth more to whoever works for them. And where the disk's interrupts come
to the very processor that the loop runs on, to watch for them keeps them off: whoever has watched for nothing lets it be for
`MISSED_S`.

Bounds: `STAY_S` after the last request or such an answer, `DISK_S` for the disk; only when a request came within `CLOSE_S` of
what was before it, so that a quiet server rests; and only while few peers are connected: with many, the loop hardly sleeps.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

STAY_S = 0.00025
DISK_S = 0.0005  # one that is slower is not worth a processor
MISSED_S = 0.05
CLOSE_S = 0.001


class Attention:
    __slots__ = ("_alone", "_awake", "_last", "_peer", "_rests_until", "_until", "_watches")

    def __init__(self) -> None:
        self._until = self._last = self._rests_until = 0.0
        self._awake = False
        self._peer = 0  # the id of the one that was heard last
        self._alone = False
        self._watches = False  # the disk

    def heard(self, peer: object) -> None:
        """A request has come."""
        self._alone = self._awake and self._peer == id(peer)
        self._peer = id(peer)
        self._stay()

    def answered(self) -> None:
        """The disk is done, and the peer knows."""
        self._stay()

    def rest(self) -> None:
        """The peer waits for something that may take long."""
        self._until = 0.0
        self._watches = False

    def watch_disk(self) -> None:
        """The peer waits for the disk."""
        now = perf_counter()
        self._watches = self._alone and now >= self._rests_until
        self._until = now + DISK_S if self._watches else 0.0

    def _stay(self) -> None:
        now = perf_counter()
        close, self._last = now - self._last < CLOSE_S, now
        self._until = now + STAY_S
        self._watches = False
        if close and not self._awake:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now = perf_counter()
        if now < self._until:
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self._awake = False
        if self._watches:
            self._watches = False
            self._rests_until = now + MISSED_S
