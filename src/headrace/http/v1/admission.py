"""How many requests are worked on at once, and how many streams are open.

A request has a place from its first line of Python to its last: `max_requests` of them, and `MAX_IN_LINE` that wait for one.
What takes long because it waits for events (server-sent events, WebSockets, long polls) gives its place back and is counted as
a stream instead:

    with stream(scope):
        ...

`headrace.http.max.streams` in all, `headrace.http.max.streams.per.host` from one address. So a thousand pages that wait for
news keep nobody from publishing. Beyond any of the bounds: 503 and Retry-After.

`closing` is true once the server ends, and what streams have put into `on_close` is called then: they wake up and end.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from headrace.http.problems import Problem

if TYPE_CHECKING:
    from headrace.broker.settings import Settings

MAX_STREAMS, MAX_STREAMS_PER_HOST = "headrace.http.max.streams", "headrace.http.max.streams.per.host"
MAX_IN_LINE = 4096
RETRY_S = "5"
LINES_PER_SECOND = 10

_ADMISSION, STREAM = "headrace.admission", "headrace.stream"

Scope = MutableMapping[str, Any]


class Admission:
    def __init__(self, settings: Settings, max_requests: int) -> None:
        self._settings = settings
        self._max_requests = max_requests
        self._line: deque[asyncio.Future[None]] = deque()
        self._streams_of: Counter[str] = Counter()
        self.working = 0
        self.streams = 0
        self.closing = False
        self._complaints = (0, 0)  # a second, and how many there were
        self._drained: asyncio.Future[None] | None = None
        self.on_close: set[Callable[[], None]] = set()

    # -- requests

    @asynccontextmanager
    async def place(self, scope: Scope) -> AsyncIterator[None]:
        """Raises Problem."""
        waiting = self.enter(scope)
        if waiting is not None:
            await self.wait(waiting)
        try:
            yield
        finally:
            self.leave(scope)

    @property
    def has_room(self) -> bool:
        """Whether the next one has a place at once."""
        return self.working < self._max_requests

    def enter(self, scope: Scope) -> asyncio.Future[None] | None:
        """None: it has a place. Otherwise `wait` for what is returned, and then it has one. Raises Problem."""
        scope[_ADMISSION] = self
        if self.working < self._max_requests:
            self.working += 1
            return None
        if len(self._line) >= MAX_IN_LINE:
            raise Problem(503, "too_many_requests", "too many requests at once", {"retry-after": RETRY_S})
        place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        return place

    def leave(self, scope: Scope) -> None:
        if STREAM not in scope:
            self._give_back()

    async def wait(self, place: asyncio.Future[None]) -> None:
        try:
            await place
        except BaseException:  # cancelled: whoever asked is gone
            if place in self._line:
                self._line.remove(place)
            elif not place.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.working -= 1

    # -- streams

    def begin_stream(self, scope: Scope) -> None:
        host = _host(scope)
        if self.closing:
            raise Problem(503, "closing", "the server is about to end", {"retry-after": RETRY_S})
        if self.streams >= self._settings.get_int(MAX_STREAMS):
            raise Problem(503, "too_many_streams", f"{MAX_STREAMS} is reached", {"retry-after": RETRY_S})
        if self._streams_of[host] >= self._settings.get_int(MAX_STREAMS_PER_HOST):
            raise Problem(503, "too_many_streams", f"{MAX_STREAMS_PER_HOST} is reached", {"retry-after": RETRY_S})
        self.streams += 1
        self._streams_of[host] += 1
        if STREAM not in scope:
            scope[STREAM] = True
            self._give_back()

    def close(self) -> None:
        self.closing = True
        for wake in tuple(self.on_close):
            wake()

    async def drained(self, within_s: float) -> None:
        """Waits until every stream has said goodbye, but no longer than that."""
        if self.streams:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._drained}, timeout=within_s)

    def may_complain(self) -> bool:
        """Whether the log may have another line about a bad peer: `LINES_PER_SECOND`."""
        second, count = int(asyncio.get_running_loop().time()), 0
        if self._complaints[0] == second:
            count = self._complaints[1]
        self._complaints = (second, count + 1)
        return count < LINES_PER_SECOND

    def end_stream(self, scope: Scope) -> None:
        host = _host(scope)
        self.streams -= 1
        self._streams_of[host] -= 1
        if not self._streams_of[host]:
            del self._streams_of[host]
        if not self.streams and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


@contextmanager
def stream(scope: Scope) -> Iterator[Admission]:
    """From here on this request waits for events and holds no place among the requests. Raises Problem."""
    admission: Admission = scope[_ADMISSION]
    admission.begin_stream(scope)
    try:
        yield admission
    finally:
        admission.end_stream(scope)


def _host(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
