"""One request and the way back: what handlers are written against, for HTTP/1.1 and HTTP/2 alike.

A handler is called when the head of a request is there. It may answer at once, or later, from any callback or task of the
same event loop; nothing of it is awaited. The body is taken in one of two ways: `collect` hands it over whole (in the very call
if it came with the head, which is how small requests are served without a task), `receive` piece by piece. Who does neither
lets it be thrown away. The answer is given whole by `respond`, or by `start`, `write` … `end`.

When the peer goes before the answer has ended, `gone` is true, `on_gone` is called (once), `receive` and `drained` raise
ConnectionError, and whatever else the handler says is ignored: a late answer is no error. A handler that raises is answered
500, or cut if its answer has begun.

Headers of answers: names in lower case. `content-length` is set by `respond`; with `start` it may be given, else the body is
chunked. `connection: close` closes the connection behind the answer. `date` is added. A CR, LF or NUL in a header is a
ValueError. Answers to HEAD and those of status 204 and 304 go out without a body, whatever is given.

Bounds are in `limits`. What `receive` has not taken is in `_pieces`, at most `unread_bytes` and a read more; small pieces are
joined, so a body that comes byte by byte does not cost an object for each.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.web.connection import Connection

Header = tuple[bytes, bytes]
Address = tuple[str, int]

_SMALL_BYTES = 4096
_JOINED_BYTES = 64 * 1024


class Exchange(ABC):
    __slots__ = (
        "_asked",
        "_body_bytes",
        "_complete",
        "_length",
        "_limit",
        "_pieces",
        "_too_large",
        "_waiter",
        "_whole",
        "gone",
        "headers",
        "http2",
        "method",
        "on_gone",
        "peer",
        "target",
    )

    method: bytes
    target: bytes  # path and query as they came; `*` for OPTIONS
    headers: list[Header]  # names in lower case; `host` is there also in HTTP/2
    peer: Address
    http2: bool
    can_upgrade = False  # whether the peer asks for another protocol, and may
    gone: bool
    on_gone: Callable[[], None] | None
    connection: Connection | None  # None once it is over

    def __init__(self, method: bytes, target: bytes, headers: list[Header], peer: Address, http2: bool) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.peer = peer
        self.http2 = http2
        self.gone = False
        self.on_gone = None
        self._length = -1  # of the body, as announced; -1 if it was not
        self._complete = False
        self._pieces: list[bytes | bytearray] = []
        self._body_bytes = 0  # in `_pieces`
        self._asked = False
        self._whole: Callable[[bytes], None] | None = None
        self._too_large: Callable[[], None] | None = None
        self._limit = 0
        self._waiter: asyncio.Future[None] | None = None

    def header(self, name: bytes) -> bytes | None:
        """The first of this name (in lower case)."""
        for found, value in self.headers:
            if found == name:
                return value
        return None

    def known_as(self, user: str) -> None:
        """Who sends it, for whoever asks who is connected."""
        if self.connection is not None:
            self.connection.user = user

    @property
    def local(self) -> Address:
        """The address the peer connected to."""
        return self.connection.local if self.connection is not None else ("", 0)

    # --- the body of the request

    def collect(self, limit: int, whole: Callable[[bytes], None], too_large: Callable[[], None]) -> None:
        """Calls `whole` with the body, or `too_large` as soon as it is known to be longer than `limit`: one of them, once,
        perhaps before this returns; neither if the peer goes. Not together with `receive`."""
        self._asked = True
        if self._complete:
            pieces = self._pieces
            if not pieces:
                whole(b"")
            elif self._body_bytes > limit:
                self._drop()
                too_large()
            else:
                self._pieces, self._body_bytes = [], 0
                whole(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces))
            return
        if self._length > limit or self._body_bytes > limit:
            self._drop()
            too_large()
            return
        self._limit = limit
        self._whole = whole
        self._too_large = too_large
        self._held(self._body_bytes)
        self._want()

    async def receive(self) -> bytes:
        """The next piece of the body, empty at its end."""
        self._asked = True
        while not self._pieces:
            if self._complete:
                return b""
            if self.gone:
                raise ConnectionError("the peer is gone")
            if self._waiter is not None:
                raise RuntimeError("two of them receive the same body")
            self._waiter = asyncio.get_running_loop().create_future()
            self._want()
            try:
                await self._waiter
            finally:
                self._waiter = None
        pieces, size = self._pieces, self._body_bytes
        self._pieces, self._body_bytes = [], 0
        self._taken(size)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    # --- the answer

    @abstractmethod
    def respond(self, status: int, headers: Sequence[Header], body: bytes) -> None:
        """The whole answer."""

    @abstractmethod
    def start(self, status: int, headers: Sequence[Header]) -> None:
        """The head of an answer whose body follows."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Some of the body. Never waits: who writes much looks at `full` or waits for `drained`."""

    @abstractmethod
    def end(self) -> None:
        """The answer is complete."""

    @property
    @abstractmethod
    def full(self) -> bool:
        """More than `unsent_bytes` wait for the peer to read."""

    @abstractmethod
    async def drained(self) -> None:
        """Waits while `full`."""

    @abstractmethod
    def cut(self) -> None:
        """Ends it at once, unsent bytes are thrown away: HTTP/1.1 resets the connection, HTTP/2 the stream. `on_gone` is not
        called: whoever cuts knows."""

    def upgrade(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hands the connection to another protocol, which gets what comes from now on (no `connection_made`) and writes its
        answer itself. Returns what came behind the head too. HTTP/1.1 alone, and before an answer: RuntimeError else,
        ConnectionError when the peer is gone. The connection goes on to count, and `WebServer.stop` cuts it."""
        raise RuntimeError("this connection can't change its protocol")

    # --- for the connection

    @abstractmethod
    def _want(self) -> None:
        """The handler waits for the body."""

    @abstractmethod
    def _taken(self, size: int) -> None:
        """The handler took so many bytes of the body."""

    def _held(self, change: int) -> bool:
        """So many bytes more, or fewer, are held by `collect`; False if that is too much for the server."""
        return self.connection is None or self.connection.server.hold(change)

    def _piece(self, data: bytes) -> bool:
        """A piece of the body came. False if the server holds too much: then this exchange has to end."""
        size = len(data)
        self._body_bytes += size
        if self._whole is not None:
            if self._body_bytes > self._limit:
                assert self._too_large is not None
                too_large = self._too_large
                self._body_bytes -= size
                self._drop()
                too_large()
                return True
            if not self._held(size):
                return False
        pieces = self._pieces
        if size >= _SMALL_BYTES:
            pieces.append(data)
        elif pieces and type(pieces[-1]) is bytearray and len(pieces[-1]) < _JOINED_BYTES:
            pieces[-1] += data
        else:
            pieces.append(bytearray(data) if pieces else data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return True

    def _body_ended(self) -> None:
        self._complete = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        whole = self._whole
        if whole is not None:
            pieces, size = self._pieces, self._body_bytes
            self._pieces, self._body_bytes = [], 0
            self._whole = self._too_large = None
            self._held(-size)
            whole(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces))

    def _drop(self) -> None:
        """What came of the body is not wanted any more."""
        if self._whole is not None:
            self._held(-self._body_bytes)
            self._whole = self._too_large = None
        self._pieces, self._body_bytes = [], 0

    def _lost(self) -> None:
        """The peer went before the answer ended."""
        if self.gone:
            return
        self.gone = True
        self._drop()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the peer is gone"))
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()


Handler = Callable[[Exchange], None]
