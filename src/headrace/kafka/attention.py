"""Staying awake for a moment: the event loop polls instead of sleeping while requests come in quick succession.

A client that waits for each answer sends its next request within microseconds. If the loop goes to sleep in between, waking
it costs more than the request itself: the processor has to leave its idle state, on a virtual machine through the host. So
after a request that followed another closely the loop is kept turning for a short while: after its answer, where that has to
wait for the disk, because until then nothing will come. Bounds: `STAY_S` after the last request or such an answer; only when it
came within `CLOSE_S` of the one before it, so that a quiet server rests; and only while few peers are connected: with many, the
loop hardly sleeps.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

STAY_S = 0.00025
CLOSE_S = 0.001


class Attention:
    __slots__ = ("_awake", "_last", "_until")

    def __init__(self) -> None:
        self._until = self._last = 0.0
        self._awake = False

    def stay(self) -> None:
        now = perf_counter()
        close, self._last = now - self._last < CLOSE_S, now
        self._until = now + STAY_S
        if close and not self._awake:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._turn)

    def rest(self) -> None:
        """The peer waits for the disk."""
        self._until = 0.0

    def _turn(self) -> None:
        if perf_counter() < self._until:
            asyncio.get_running_loop().call_soon(self._turn)
        else:
            self._awake = False
