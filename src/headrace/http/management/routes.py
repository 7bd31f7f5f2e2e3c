"""All resources of the management API, in one application below /api."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Mount

from headrace.http.management import (
    bindings,
    connections,
    consumers,
    definitions,
    exchanges,
    features,
    health_checks,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    plugins,
    policies,
    queues,
    users,
    vhosts,
)
from headrace.http.management.api import ManagementApi

if TYPE_CHECKING:
    from headrace.broker import Broker

# Where two paths fit, the first one counts: those with a word in the place of a name come first.
_RESOURCES = (
    overview,
    nodes,
    health_checks,
    connections,
    consumers,
    exchanges,
    queues,
    messages,
    bindings,
    vhosts,
    users,
    policies,
    parameters,
    limits,
    definitions,
    features,
    plugins,
)


def routes(broker: Broker) -> list[Mount]:
    found = [resource for module in _RESOURCES for resource in module.RESOURCES]
    found.sort(key=lambda resource: resource.path.count("{"))
    return [Mount("/api", app=ManagementApi(broker, found))]
