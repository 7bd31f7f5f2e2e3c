"""Which path belongs to which resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from headrace.http import health, metrics
from headrace.http.management.routes import routes as management_routes
from headrace.http.routes import routes as route_routes

if TYPE_CHECKING:
    from headrace.broker import Broker


def make_app(broker: Broker) -> Starlette:
    return Starlette(
        routes=[*health.routes(broker), *metrics.routes(broker), *management_routes(broker), *route_routes(broker)]
    )
