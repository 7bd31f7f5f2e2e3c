"""uvicorn, resting while nobody asks.

Its own way is to look ten times a second whether it should end, and a process that wakes up that often costs the server beside
it a little, for nothing. This one is told of a signal, and looks each `LOOK_S` for what nobody tells: what time it is, for the
header with the date, and whether its parent is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from types import FrameType

import uvicorn

LOOK_S = 1.0


class RestingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, parent: int | None = None) -> None:
        """Made in the event loop that it serves in. It ends when its parent is another one than this."""
        super().__init__(config)
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self._parent = parent

    async def main_loop(self) -> None:
        while self._parent in (None, os.getppid()) and not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), LOOK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._told.set)
