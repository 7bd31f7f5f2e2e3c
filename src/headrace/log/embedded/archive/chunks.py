"""A cache of pieces of archived segments: a reader who streams asks the store for large pieces, and mostly ahead of time.

A chunk begins and ends between two batches, so what a reader gets is a slice of one chunk, uncopied. Those used longest ago go
when there are more bytes than may be. Who asks for a chunk that is on its way waits for the same answer.

Bound: `limit_bytes` for what is kept, and one chunk for each reading thread on its way. A slice that waits in a connection's
buffer keeps its chunk alive; connections have a bound of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.disk.port import Buffer

CHUNK_BYTES = 4 * 1024 * 1024
Place = tuple[str, int]  # name of the segment, number of the chunk
Load = Callable[[], Awaitable[Buffer]]


class ChunkCache:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept: dict[Place, Buffer] = {}  # in order of last use
        self._coming: dict[Place, asyncio.Task[Buffer]] = {}
        self.kept_bytes = 0

    def get(self, place: Place) -> Buffer | None:
        data = self._kept.pop(place, None)
        if data is not None:
            self._kept[place] = data
        return data

    def knows(self, place: Place) -> bool:
        return place in self._kept or place in self._coming

    @property
    def coming(self) -> int:
        return len(self._coming)

    def load(self, place: Place, load: Load) -> asyncio.Task[Buffer]:
        """The chunk when it has come. Several may wait for it; await it through `asyncio.shield`."""
        task = self._coming.get(place)
        if task is None:
            task = self._coming[place] = asyncio.get_running_loop().create_task(self._bring(place, load))
            task.add_done_callback(_heard)
        return task

    async def _bring(self, place: Place, load: Load) -> Buffer:
        try:
            data = await load()
            self._keep(place, data)
            return data
        finally:
            self._coming.pop(place, None)

    def _keep(self, place: Place, data: Buffer) -> None:
        self._kept[place] = data
        self.kept_bytes += len(data)
        while self.kept_bytes > self._limit_bytes and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self.kept_bytes -= len(self._kept.pop(oldest))

    def close(self) -> None:
        for task in self._coming.values():
            task.cancel()
        self._kept.clear()
        self.kept_bytes = 0


def _heard(task: asyncio.Task[Buffer]) -> None:
    """Nobody may be waiting for what was read ahead: its error is no news."""
    if not task.cancelled():
        task.exception()
