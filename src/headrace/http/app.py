"""Which path belongs to which resource.

A request comes in at the `Door`: a single event that is published goes its own quick way, everything else is ASGI. What is
below /v1, and the page /routes, stands behind the gate of `v1.shell`. The rest is older than /v1: health, metrics and
RabbitMQ's management API, at most `MAX_REQUESTS` of them at once.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from headrace.http import health, metrics, receive, webhooks
from headrace.http.management.routes import routes as management_routes
from headrace.http.problems import Problem
from headrace.http.routes import OPERATIONS as ROUTE_OPERATIONS
from headrace.http.routes import routes as route_routes
from headrace.http.timing import RequestTimes
from headrace.http.urgency import rest
from headrace.http.v1 import admin, socket, sse, topic_events
from headrace.http.v1.admission import Admission
from headrace.http.v1.appending import Appending
from headrace.http.v1.following import Following
from headrace.http.v1.openapi import serving as openapi
from headrace.http.v1.quick_publish import QuickPublish
from headrace.http.v1.shell import Shell
from headrace.web.asgi import AsgiHandler

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.web.exchange import Handler

MAX_REQUESTS = 64
BEHIND_THE_GATE = ("/v1", "/routes")


def v1_routes(broker: Broker, appending: Appending | None = None) -> list[BaseRoute]:
    """All that is behind the gate. What is asked for most stands first."""
    following, resources = Following(broker), admin.resources(broker)
    appending = appending or Appending(broker)
    return [
        *topic_events.routes(broker, following, appending),
        *webhooks.routes(broker),
        *route_routes(broker),
        *receive.routes(broker),
        *sse.routes(broker, following),
        *socket.routes(broker, following, appending),
        *admin.routes(resources),
        *openapi.routes((*resources.operations, *ROUTE_OPERATIONS, *webhooks.OPERATIONS)),
    ]


class Door:
    """The way in: `handler` takes all exchanges."""

    handler: Handler

    def __init__(self, broker: Broker) -> None:
        appending, times = Appending(broker), RequestTimes(broker)
        self._shell = Shell(broker, v1_routes(broker, appending))
        others = Starlette(routes=[*health.routes(broker), *metrics.routes(broker), *management_routes(broker)])
        self.application = App(self._shell, others, Admission(broker.settings, MAX_REQUESTS), times)
        self.handler = QuickPublish(broker, appending, self._shell, AsgiHandler(self.application), times.publishing)

    @property
    def streams(self) -> int:
        """That wait for events."""
        return self._shell.admission.streams

    async def close(self, within_s: float) -> None:
        """Ends every stream: the server is about to."""
        await self._shell.close(within_s)


class App:
    """The ASGI application."""

    def __init__(self, shell: Shell, others: Starlette, admission: Admission, times: RequestTimes) -> None:
        self._shell = shell
        self._others = others
        self._admission = admission
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = monotonic()
        if scope.get("method") == "GET":
            await rest(scope)
        try:
            if scope["path"].startswith(BEHIND_THE_GATE):
                await self._shell(scope, receive, send)
            else:
                await self._other(scope, receive, send)
        finally:
            self._times.took(scope, began_s)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._admission.place(scope):
                await self._others(scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)
