"""Keeps messages of WebSockets short where an application can't: before they are whole.

Granian hands a message over when all of it is there, and takes up to 64 MiB; a thousand sockets could fill the memory with
messages that never end. So every `LOOK_S` it is asked of each socket how much came through TCP since its last message
(`TCP_INFO`), and one with more than `MAX_UNFINISHED_BYTES` is ended with 1009. That is the longest message and what the kernel
may keep of further ones while we take none. What a peer can send in `LOOK_S` comes on top.

On systems without /proc and TCP_INFO nothing is found, and Granian's bound is the bound.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing

from headrace.http.connections import by_peer, received_bytes

LOOK_S = 0.05
MAX_UNFINISHED_BYTES = 12 * 1024 * 1024


class Watched:
    """One socket."""

    def __init__(self, client: tuple[str, int], too_long: Callable[[], None]) -> None:
        self.client = client
        self.too_long = too_long
        self.connection: socket.socket | None = None
        self.looked_for = False
        self._whole = 0  # bytes that had come with the last message

    def message_came(self) -> None:
        if self.connection is not None:
            self._whole = received_bytes(self.connection)

    def unfinished(self) -> int:
        return 0 if self.connection is None else received_bytes(self.connection) - self._whole

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class SocketWatch:
    """All WebSockets of an application."""

    def __init__(self) -> None:
        self._sockets: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, client: tuple[str, int], too_long: Callable[[], None]) -> Watched:
        watched = Watched(client, too_long)
        self._sockets.add(watched)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        return watched

    def remove(self, watched: Watched) -> None:
        self._sockets.discard(watched)
        watched.close()

    async def _look(self) -> None:
        while self._sockets:
            new = [each for each in self._sockets if not each.looked_for]
            if new:
                await self._find(new)
            for each in tuple(self._sockets):
                if each.unfinished() > MAX_UNFINISHED_BYTES:
                    each.too_long()
            await asyncio.sleep(LOOK_S)

    async def _find(self, new: list[Watched]) -> None:
        wanted = {each.client: each for each in new}
        found = await asyncio.to_thread(by_peer, set(wanted))
        for client, each in wanted.items():
            each.looked_for = True
            connection = found.pop(client, None)
            if connection is not None and each in self._sockets:
                each.connection = connection
                each.message_came()
            elif connection is not None:
                connection.close()
        for connection in found.values():
            with closing(connection):
                pass
