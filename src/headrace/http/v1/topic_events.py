"""/v1/topics/{topic}/events: publishing (POST) and reading (GET). `publish`, `read` and `record` do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from headrace.http.problems import Problem
from headrace.http.v1.publish import Publishing
from headrace.http.v1.read import Reading
from headrace.http.v1.record import OneRecord

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from headrace.broker import Broker
    from headrace.http.v1.appending import Appending
    from headrace.http.v1.following import Following

METHODS = "GET, HEAD, POST"


def routes(broker: Broker, following: Following, appending: Appending) -> list[BaseRoute]:
    return [
        Route("/v1/topics/{topic}/events", _TopicEvents(broker, following, appending)),
        Route("/v1/topics/{topic}/partitions/{partition}/events/{offset}", OneRecord(broker), methods=["GET"]),
    ]


class _TopicEvents:
    """An ASGI application."""

    def __init__(self, broker: Broker, following: Following, appending: Appending) -> None:
        self._publishing = Publishing(broker, appending)
        self._reading = Reading(broker, following)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "POST":
            await self._publishing(scope, receive, send)
        elif method in ("GET", "HEAD"):
            await self._reading(scope, receive, send)
        else:
            text = f"{method} is not possible here; there are: {METHODS}"
            raise Problem(405, "method_not_allowed", text, {"allow": METHODS})
