"""One connection and the requests on it, one after the other: HTTP/1.1, with a bound on everything that comes back. Answers
are read by `plain_answer` or, where they are not that plain, by h11.

An answer counts when its head is there. Of its body the beginning is kept for people to look at; one that is too long, too
slow or broken is cut, and its connection closed.

Bounds of an answer, whatever is written into it: `MAX_HEAD_BYTES` until the end of its head, with all that comes before it
(1xx); `MAX_INFORMATIONAL` such; of the body as many bytes as asked for, in at most `MAX_PIECES` pieces (chunks of one byte
each cost as much work as large ones). Bodies are not decompressed. h11 is fed `PIECE_BYTES` at a time, between which others
have their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import h11

from headrace.webhooks.outbound.errors import Unreachable
from headrace.webhooks.outbound.network import Stream
from headrace.webhooks.outbound.plain_answer import PlainAnswer, plain_answer
from headrace.webhooks.outbound.url import Address

MAX_HEAD_BYTES = 16 * 1024
MAX_INFORMATIONAL = 16
MAX_PIECES = 256
PIECE_BYTES = 4096
FRAMING_BYTES = 16 * 1024  # of chunks, beyond the bytes of the body

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: Headers


class NoAnswer(Unreachable):
    """The connection ended before the first byte of an answer: on one that was used before, perhaps just that had ended."""


class Exchange:
    """A connection to `address`, opened at `born` and idle since `idle_since`, on the loop's clock."""

    def __init__(self, stream: Stream, address: Address, born: float) -> None:
        self.stream = stream
        self.address = address
        self.born = born
        self.idle_since = born
        self._came = 0
        self._plain: PlainAnswer | None = None
        self._http: h11.Connection | None = None  # of an answer that is not plain
        self._whole = False  # the last answer was read to its end, and allows another

    async def send(self, target: bytes, headers: Headers, body: bytes) -> Head:
        """Returns when the head of the answer is there. Raises Unreachable."""
        self._came, self._plain, self._http, self._whole = 0, None, None, False
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        await self.stream.write(b"POST %b HTTP/1.1\r\n%b\r\n" % (target, lines), body)
        data = await self._read(MAX_HEAD_BYTES)
        plain = self._plain = plain_answer(data)
        if plain is not None:
            return Head(plain.status, plain.headers)
        http = self._http = _waiting_for_an_answer()
        http.receive_data(data)
        informational = 0
        while True:
            event = await self._next(http, MAX_HEAD_BYTES)
            if isinstance(event, h11.Response):
                return Head(event.status_code, list(event.headers))
            informational += 1
            if not isinstance(event, h11.InformationalResponse) or informational > MAX_INFORMATIONAL:
                raise Unreachable("the answer is not HTTP/1.1 as it should be", "protocol")

    async def body(self, most: int, until: float) -> bytes:
        """The beginning of it."""
        found = bytearray()
        try:
            if self._plain is not None and len(self._plain.rest) >= self._plain.length:
                found += self._plain.rest[: self._plain.length]
                self._whole = len(self._plain.rest) == self._plain.length
            else:
                async with asyncio.timeout_at(until):
                    await (self._plain_body(found, most) if self._http is None else self._other_body(self._http, found, most))
        except (TimeoutError, Unreachable):
            pass
        return bytes(found[:most])

    async def _plain_body(self, found: bytearray, most: int) -> None:
        assert self._plain is not None
        found += self._plain.rest
        length = self._plain.length
        while len(found) < min(length, most):
            data = await self.stream.read(PIECE_BYTES)
            if not data:
                return
            found += data
        self._whole = len(found) == length
        del found[length:]

    async def _other_body(self, http: h11.Connection, found: bytearray, most: int) -> None:
        for _ in range(MAX_PIECES):
            event = await self._next(http, self._came + most + FRAMING_BYTES)
            if not isinstance(event, h11.Data):
                break
            found += event.data
            if len(found) >= most:
                break
        self._whole = http.their_state is h11.DONE and not http.trailing_data[0]

    def renew(self) -> bool:
        """Whether another request can be sent on it."""
        return self._whole and self.stream.is_quiet

    def close(self) -> None:
        self.stream.close()

    async def _next(self, http: h11.Connection, most: int) -> object:
        """The next event; no more than `most` bytes of the answer are read for it all together."""
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as error:
                raise Unreachable(f"the answer is not HTTP/1.1: {error}", "protocol") from None
            if event is not h11.NEED_DATA:
                return event
            data = await self._read(most, http)
            http.receive_data(data)

    async def _read(self, most: int, http: h11.Connection | None = None) -> bytes:
        """Some more of the answer; nothing at its end, where it may end like that."""
        if self._came >= most:
            raise Unreachable(f"the answer's head has more than {MAX_HEAD_BYTES} bytes", "protocol")
        data = await self.stream.read(min(PIECE_BYTES, most - self._came))
        if not data:
            how = f": {self.stream.broken}" if self.stream.broken else ""
            if not self._came:
                raise NoAnswer(f"the connection ended without an answer{how}", "closed")
            if http is None or http.their_state is h11.SEND_RESPONSE or self.stream.broken:
                raise Unreachable(f"the connection ended within the answer{how}", "closed")
        self._came += len(data)
        return data


def _waiting_for_an_answer() -> h11.Connection:
    """That of a client whose request has gone out: what was in it makes no difference for the answer."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    http.send(h11.Request(method=b"POST", target=b"/", headers=[(b"host", b"-"), (b"content-length", b"0")]))
    http.send(h11.EndOfMessage())
    return http
