"""The socket of a route, opened: in a context of its own, bound or connected, and watched (`notices`)."""

from __future__ import annotations

import logging

from headrace.zeromq.notices import Notices
from headrace.zeromq.wire.sockets import Context, Endpoint, close_later, open_endpoint

logger = logging.getLogger("headrace.zeromq")


class Opened:
    def __init__(self, route: str, kind: int, endpoint: Endpoint, **options: int) -> None:
        """Raises OSError."""
        self.address = endpoint.address
        self.closed = False
        self._context = Context()
        try:
            self.socket = self._context.socket(kind, endpoint, **options)
            self.notices = Notices(f"route '{route}'", self._context, self.socket, logger)
        except BaseException:
            close_later(self._context)
            raise
        try:
            open_endpoint(self.socket, endpoint)
        except BaseException:
            self.close(linger_ms=0)
            raise

    def facts(self) -> dict[str, object]:
        return {
            "address": self.address,
            "connections": len(self.notices.connections),
            "failed_handshakes": self.notices.failed.count,
        }

    def close(self, *, linger_ms: int | None = None) -> None:
        """Without anybody waiting. What is queued is still sent, as long as the socket lingers."""
        if not self.closed:
            self.closed = True
            self.notices.close()
            self.socket.close(linger_ms)
            close_later(self._context)
