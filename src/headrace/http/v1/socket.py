"""WebSockets (RFC 6455): /v1/topics/{topic}/socket for one topic, /v1/socket for many. `socket_messages` has the messages.

With `?from=…` (or `position=…`) in its URL, a socket of one topic is subscribed to it from the start; all a browser needs is

    new WebSocket("ws://127.0.0.1:8080/v1/topics/orders/socket?from=latest").onmessage = …

What a message asks for and can't be had is answered with an `error`; the socket stays. What is no message at all ends it:

    1000   the client's own close is answered
    1001   the server ends
    1003   a binary message: all messages are text
    1007   not JSON
    1008   the user was deleted, or may not come any more
    1009   a message longer than `web.websocket` takes
    1011   a mistake of ours, see the log
    1013   the log takes no writes now, or there are too many long messages at once; try again later

Bounds: `MAX_SUBSCRIPTIONS` of one socket. No message is taken from a socket while `MAX_UNANSWERED` publishes or
`MAX_UNANSWERED_BYTES` of them are not durable yet, or `MAX_UNSENT_BYTES` of answers wait for a client that does not read: the
client has to wait. A client that reads nothing for `headrace.http.stalled.ms` is cut off. Frames, and messages that are not
whole yet: `web.websocket`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, WebSocketRoute

from headrace.broker.traffic import Traffic
from headrace.http.authentication import scope_user
from headrace.http.problems import Problem
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.admission import stream
from headrace.http.v1.socket_session import Session
from headrace.http.v1.starting import Start

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.following import Following

logger = logging.getLogger("headrace.http")

SUBPROTOCOL = "headrace.v1"
PROTOCOL = "websocket"


def routes(broker: Broker, following: Following, appending: Appending) -> list[BaseRoute]:
    sockets = _Sockets(broker, following, appending)
    paths = ("/v1/topics/{topic}/socket", "/v1/socket")
    return [
        *(WebSocketRoute(path, sockets) for path in paths),
        *(Route(path, _upgrade_needed, methods=["GET"]) for path in paths),
    ]


async def _upgrade_needed(request: HTTPConnection) -> None:
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
    raise Problem(426, "upgrade_needed", "this is a WebSocket: it needs a handshake as RFC 6455 has it", headers)


class _Sockets:
    def __init__(self, broker: Broker, following: Following, appending: Appending) -> None:
        self._broker = broker
        self._following = following
        self._appending = appending.counting(PROTOCOL)
        self._traffic = broker.traffic.setdefault(PROTOCOL, Traffic())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        user = scope_user(self._broker, scope)
        name: str | None = connection.path_params.get("topic")
        start: Start | None = None
        if connection.query_params:
            if name is None:
                raise Problem(400, "unknown_parameter", "a socket for many topics has no parameters")
            start = Start.of_query(connection.query_params)
            check_topic_access(user, "read", name)
            if self._broker.topics.get(name) is None:
                raise Problem(404, "unknown_topic", f"there is no topic '{name[:250]}'")
        with stream(scope) as admission:
            await receive()  # websocket.connect
            offered = SUBPROTOCOL in scope.get("subprotocols", ())
            await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if offered else None})
            session = Session(self._broker, self._following, self._appending, self._traffic, user, name, scope, receive, send)
            admission.on_close.add(session.server_ends)
            self._traffic.connections += 1
            self._traffic.connections_total += 1
            try:
                await session.run(start)
            finally:
                self._traffic.connections -= 1
                admission.on_close.discard(session.server_ends)
