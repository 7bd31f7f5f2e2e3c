"""A file whose synced writes nobody in Python waits for, past the page cache: the event loop hears of their end as it hears of
a socket. On a quiet server that saves two wake-ups for each commit.

It is for small writes into blocks that exist. The kernel carries them out by itself while it is quick at it. After one that was
slow, because the kernel's own thread had to wait for a processor or the file system for the device, a thread of C makes them
for `_AWAY_S`, and for longer each time that soon ends as before. Where the thread is slow as well the kernel was not to blame:
it goes on, and more of its writes have to be slow within a second before the thread is tried again. A file system that knows no
such writes says so at the first one, before it has written anything; the file refuses from there on. Bounds: one write under
way, `ROOM_BYTES` each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from time import perf_counter

from headrace._direct import DirectWriter
from headrace.disk.port import NOT_BEGUN, Buffer

ROOM_BYTES = 128 * 1024
_SLOW_S = 0.002
_AWAY_S = 1.0
_LONGEST_AWAY_S = 32.0
_MOST_SLOW = 8  # more than one in a hundred would be felt


class RealDirectFile:
    __slots__ = (
        "_away_s", "_back_at", "_began", "_done", "_fd", "_helped", "_loop", "_path", "_refuses", "_slow", "_slow_allowed",
        "_slow_at", "_writer",
    )  # fmt: skip

    def __init__(self, path: str) -> None:
        """Raises OSError where the file system knows no such writes."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._writer = DirectWriter(ROOM_BYTES)
        self._fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._done: Callable[[Exception | None], None] | None = None
        self._refuses = False
        self._began = 0.0
        self._back_at = 0.0  # from then on it is the kernel's turn
        self._away_s = _AWAY_S
        self._slow = 0  # writes of the kernel's, one within a second of the other
        self._slow_at = 0.0
        self._slow_allowed = 1
        self._helped = False  # the thread did, when it last made them
        self._loop.add_reader(self._writer.ready, self._ready)

    def start(self, position: int, pieces: Sequence[Buffer], done: Callable[[Exception | None], None]) -> bool:
        if self._refuses:
            return False
        self._began = perf_counter()
        if not self._writer.start(self._fd, position, pieces, self._began < self._back_at):
            return False
        self._done = done
        return True

    def _ready(self) -> None:
        code = self._writer.finish()
        done = self._done
        if code is None or done is None:
            return
        if perf_counter() - self._began > _SLOW_S:
            self._was_slow()
        self._done = None
        self._refuses = code in NOT_BEGUN
        done(OSError(code, os.strerror(code), self._path) if code else None)

    def _was_slow(self) -> None:
        if self._began < self._back_at:
            self._helped = False
            self._slow_allowed = min(2 * self._slow_allowed, _MOST_SLOW)
            self._back_at = self._began
            return
        if self._began - self._slow_at > _AWAY_S:
            self._slow = 0
        if self._helped:
            self._helped = False
            self._slow_allowed = max(1, self._slow_allowed // 2)
        self._slow += 1
        self._slow_at = self._began
        if self._slow >= self._slow_allowed:
            self._slow = 0
            self._helped = True
            self._leave_it_to_the_thread()

    def _leave_it_to_the_thread(self) -> None:
        soon = self._began - self._back_at < self._away_s
        self._away_s = min(2 * self._away_s, _LONGEST_AWAY_S) if soon else _AWAY_S
        self._back_at = perf_counter() + self._away_s

    def close(self) -> None:
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._writer.ready)
            self._writer.close()
            os.close(self._fd)
            self._fd = -1
