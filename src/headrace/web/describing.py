"""What a web server tells about its connections to whoever asks who is connected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sockets import ConnectionSeen, bytes_through, connection_id
from headrace.web.connection import Connection

if TYPE_CHECKING:
    from headrace.web.server import WebServer

_POLICY = 1008  # the close code for a WebSocket that shall not go on (RFC 6455, section 7.4.1)


class WebDoor:
    """`server` tells whether there is one: it begins with the first connection."""

    def __init__(self, protocol: str, server: Callable[[], WebServer | None]) -> None:
        self._protocol = protocol
        self._server = server

    def open(self) -> Iterator[tuple[str, Connection]]:
        server = self._server()
        for each in server.connections() if server is not None else ():
            if not (each.lost or each.transport.is_closing()):
                yield self._id(each), each

    def _id(self, connection: Connection) -> str:
        return connection_id("websocket" if connection.upgraded else self._protocol, *connection.peer)

    def seen(self, connection: Connection) -> ConnectionSeen:
        received, sent = bytes_through(connection.transport)
        open_s = max(0.0, asyncio.get_running_loop().time() - connection.opened_s)
        return ConnectionSeen(
            id=self._id(connection),
            protocol="websocket" if connection.upgraded else self._protocol,
            version=connection.protocol_name,
            peer_host=connection.peer[0],
            peer_port=connection.peer[1],
            client=connection.client.decode("latin-1"),
            client_id="",
            user=connection.user,
            vhost="",
            state="closing" if connection.transport.is_closing() else "running" if connection.under_way else "idle",
            connected_at_ms=int((time.time() - open_s) * 1000),
            channels=None,
            requests=connection.requests,
            received_bytes=received,
            sent_bytes=sent,
            unsent_bytes=connection.transport.get_write_buffer_size(),
        )

    def close(self, connection: Connection, reason: str) -> None:
        """A WebSocket is told so; of HTTP, what is under way is cut."""
        socket = connection.transport.get_protocol() if connection.upgraded else None
        if socket is not None and hasattr(socket, "end"):
            socket.end(_POLICY)
        else:
            connection.cut()
