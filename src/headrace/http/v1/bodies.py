"""The bodies of requests: read as they come, with a bound on the size of one, on the memory of all, and on time.

Bounds, each a setting: `headrace.http.max.body.bytes` for one body (413), `headrace.http.body.memory.bytes` for all that are
being read or worked on (those that say how long they are wait for room, others get 503), `headrace.http.body.timeout.ms` for a
body to arrive (408, see `patience`). Bodies up to `SMALL_BYTES` are not counted, nor the beginnings of others: there are never
more of them than connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from headrace.http.problems import Problem
from headrace.http.v1.patience import Patience

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from headrace.broker.settings import Settings

MAX_BODY_BYTES = "headrace.http.max.body.bytes"
BODY_MEMORY_BYTES = "headrace.http.body.memory.bytes"
SMALL_BYTES = 64 * 1024

_NO_ROOM = "too many large bodies at once"


class Bodies:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._taken = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.patience = Patience(settings)

    # --- a whole body

    async def read(self, scope: Scope, receive: Receive, limit: int) -> bytes:
        """A body of at most `limit` bytes, for those who are done with it soon. Raises Problem."""
        length = length_of(scope)
        if length is not None and length <= min(SMALL_BYTES, limit):
            return await self.small(scope, receive, length)
        async with self.large(scope, receive, length, limit) as body:
            return body

    async def small(self, scope: Scope, receive: Receive, length: int) -> bytes:
        """A body of this length, which is at most `SMALL_BYTES`. Raises Problem."""
        if length == 0:
            return b""
        with self.patience.limit(scope):
            body, _ = await self._some(receive, length, length)
            return body

    @asynccontextmanager
    async def large(self, scope: Scope, receive: Receive, length: int | None, limit: int) -> AsyncIterator[bytes]:
        """A body of at most `limit` bytes; there is room for it until the end. The first `SMALL_BYTES` must have come before it
        gets some. Raises Problem."""
        if length is not None and length > limit:
            raise too_large(limit)
        room = 0
        try:
            with self.patience.limit(scope):
                body, ended = await self._some(receive, length, min(SMALL_BYTES, limit))
            if not ended:
                if length is None:
                    self.take_now(limit)
                else:
                    await self.take(length)
                room = length or limit
                with self.patience.limit(scope):
                    left = None if length is None else length - len(body)
                    rest, ended = await self._some(receive, left, limit - len(body))
                body += rest
            if not ended or len(body) > limit:
                raise too_large(limit)
            yield body
        finally:
            if room:
                self.give_back(room)

    @staticmethod
    async def _some(receive: Receive, length: int | None, enough: int) -> tuple[bytes, bool]:
        """What comes, until it has ended (after `length`, if that is known) or is more than enough; and whether it has ended.
        Raises Problem."""
        pieces: list[bytes] = []
        size = 0
        more = True
        while more and size != length and size <= enough:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _incomplete()
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
        if length is not None and size < length and not more:
            raise _incomplete()
        return b"".join(pieces), size == length or not more

    @property
    def limit(self) -> int:
        return self._settings.get_int(MAX_BODY_BYTES)

    # --- memory

    async def take(self, size: int) -> None:
        """Waits for room. Raises Problem if there is none in time."""
        if not self._line and self._fits(size):
            self._taken += size
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, place))
        try:
            with self.patience.limit(problem=Problem(503, "busy", _NO_ROOM, {"retry-after": "1"})):
                await place
        except BaseException:
            if place.done() and not place.cancelled():
                self.give_back(size)
            else:
                place.cancel()
            raise

    def take_now(self, size: int) -> None:
        """Raises Problem if there is no room."""
        if not self.take_if_free(size):
            raise Problem(503, "busy", _NO_ROOM, {"retry-after": "1"})

    def take_if_free(self, size: int) -> bool:
        if not self._fits(size):
            return False
        self._taken += size
        return True

    def give_back(self, size: int) -> None:
        self._taken -= size
        while self._line:
            wanted, place = self._line[0]
            if not place.done():
                if not self._fits(wanted):
                    return
                self._taken += wanted
                place.set_result(None)
            self._line.popleft()

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._settings.get_int(BODY_MEMORY_BYTES)


def length_of(scope: Mapping[str, Any]) -> int | None:
    """What Content-Length says; None: it is not there, and the body comes in chunks."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)  # the HTTP server has seen to it that it is a number
    return None


def _incomplete() -> Problem:
    return Problem(400, "incomplete_body", "the body ended before it was complete")


def too_large(limit: int) -> Problem:
    text = f"a body has at most {limit} bytes here ({MAX_BODY_BYTES})"
    return Problem(413, "body_too_large", text)
