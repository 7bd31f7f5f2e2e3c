"""Which path belongs to which resource.

What is below /v1, and the page /routes, stands behind the gate of `v1.shell`. The rest is older than /v1: health, metrics and
RabbitMQ's management API, at most `MAX_REQUESTS` of them at once.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from headrace.http import health, metrics, receive, webhooks
from headrace.http.management.routes import routes as management_routes
from headrace.http.problems import Problem
from headrace.http.routes import OPERATIONS as ROUTE_OPERATIONS
from headrace.http.routes import routes as route_routes
from headrace.http.v1 import admin, socket, sse, topic_events
from headrace.http.v1.admission import Admission
from headrace.http.v1.appending import Appending
from headrace.http.v1.following import Following
from headrace.http.v1.openapi import serving as openapi
from headrace.http.v1.shell import Shell, Shortcut

if TYPE_CHECKING:
    from headrace.broker import Broker

MAX_REQUESTS = 64
BEHIND_THE_GATE = ("/v1", "/routes")


def v1_routes(broker: Broker) -> list[BaseRoute]:
    """All that is behind the gate. What is asked for most stands first."""
    return _v1(broker)[0]


def _v1(broker: Broker) -> tuple[list[BaseRoute], Shortcut]:
    following, appending, resources = Following(broker), Appending(broker), admin.resources(broker)
    events = topic_events.TopicEvents(broker, following, appending)
    routes = [
        *topic_events.routes(broker, events),
        *webhooks.routes(broker),
        *route_routes(broker),
        *receive.routes(broker),
        *sse.routes(broker, following),
        *socket.routes(broker, following, appending),
        *admin.routes(resources),
        *openapi.routes((*resources.operations, *ROUTE_OPERATIONS, *webhooks.OPERATIONS)),
    ]
    return routes, events.shortcut


def make_app(broker: Broker) -> App:
    others = Starlette(routes=[*health.routes(broker), *metrics.routes(broker), *management_routes(broker)])
    return App(Shell(broker, *_v1(broker)), others, Admission(broker.settings, MAX_REQUESTS))


class App:
    """The ASGI application."""

    def __init__(self, shell: Shell, others: Starlette, admission: Admission) -> None:
        self._shell = shell
        self._others = others
        self._admission = admission

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["path"].startswith(BEHIND_THE_GATE):
            return self._shell(scope, receive, send)
        return self._other(scope, receive, send)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._admission.place(scope):
                await self._others(scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)

    async def close(self, within_s: float) -> None:
        """Ends every stream: the server is about to."""
        await self._shell.close(within_s)
