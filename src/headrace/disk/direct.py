"""A file whose synced writes the kernel carries out by itself, past the page cache: no thread waits for the device, and the
event loop hears of the end as it hears of a socket. On a quiet server that saves two wake-ups for each commit.

It is for small writes into blocks that exist: then handing one over takes some 40 µs. A file system that waits for the device
while it takes a write would hold up the event loop, so the time of each is looked at, and a file that is slow more often than
now and then refuses from there on; its user then writes in a thread. Bounds: one write under way, `ROOM_BYTES` each.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from time import perf_counter

from headrace._direct import DirectWriter
from headrace.disk.port import Buffer

logger = logging.getLogger("headrace.disk")

ROOM_BYTES = 128 * 1024
_SLOW_S = 0.001
_SLOW_COUNTS = 8  # a slow one weighs as much as so many quick ones
_PATIENCE = 64


class RealDirectFile:
    __slots__ = ("_done", "_fd", "_loop", "_path", "_trouble", "_writer")

    def __init__(self, path: str) -> None:
        """Raises OSError where the file system knows no such writes."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._writer = DirectWriter(ROOM_BYTES)
        self._fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._done: Callable[[Exception | None], None] | None = None
        self._trouble = 0
        self._loop.add_reader(self._writer.ready, self._ready)

    def start(self, position: int, pieces: Sequence[Buffer], done: Callable[[Exception | None], None]) -> bool:
        if self._trouble >= _PATIENCE:
            return False
        began = perf_counter()
        started = self._writer.start(self._fd, position, pieces)
        if started and perf_counter() - began < _SLOW_S:
            self._trouble = max(0, self._trouble - 1)
        else:
            self._trouble += _SLOW_COUNTS
            if self._trouble >= _PATIENCE:
                logger.info("%s: writes wait for the device, so the commit thread makes them", self._path)
        if started:
            self._done = done
        return started

    def _ready(self) -> None:
        code = self._writer.finish()
        done = self._done
        if code is None or done is None:
            return
        self._done = None
        done(OSError(code, os.strerror(code), self._path) if code else None)

    def close(self) -> None:
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._writer.ready)
            self._writer.close()
            os.close(self._fd)
            self._fd = -1
