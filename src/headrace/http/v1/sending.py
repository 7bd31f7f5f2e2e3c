"""To a peer, as fast as it reads and no faster.

The server keeps some of an answer for a peer that does not read; then `send` waits. What is long goes out in pieces of
`PIECE_BYTES`, so a stalled reader costs no more than that here, what the server keeps, and what its socket buffers. After
`headrace.http.stalled.ms` without any progress it is given up, and its connection is cut: it holds a place that others could
have.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from headrace.broker.settings import Settings

logger = logging.getLogger("headrace.http")

PIECE_BYTES = 32 * 1024
STALLED_MS = "headrace.http.stalled.ms"


class Stalled(Exception):
    """The peer does not read."""


class Peer:
    """Whoever sent a request, as somebody to send to."""

    def __init__(self, settings: Settings, scope: Scope, send: Send) -> None:
        self._settings = settings
        self._scope = scope
        self._send = send

    async def send_body(self, body: bytes) -> None:
        """A part of an answer. Raises Stalled."""
        for first in range(0, len(body), PIECE_BYTES):
            piece = body[first : first + PIECE_BYTES] if len(body) > PIECE_BYTES else body
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})

    async def send(self, message: dict[str, Any]) -> None:
        """Raises Stalled."""
        try:
            async with asyncio.timeout(self._settings.get_int(STALLED_MS) / 1000):
                await self._send(message)
        except TimeoutError:
            raise Stalled from None

    def cut(self) -> None:
        """Ends the connection at once."""
        if self._scope["headrace.admission"].may_complain():
            logger.warning("cut the connection from %s:%s off: it does not read what it is sent", *self._scope["client"])
        self._scope["headrace.exchange"].cut()
