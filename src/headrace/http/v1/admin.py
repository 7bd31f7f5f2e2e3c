"""Everything that is administered below /v1, as one table of operations: topics, groups, queues, exchanges, bindings;
and the server as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.http.v1 import (
    brokered,
    dead_letter_topics,
    dead_letters,
    graph,
    group_offsets,
    group_reset,
    groups,
    record_views,
    server_side,
    topic_parts,
    topics,
    trial,
)
from headrace.http.v1.operations import Resources

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from headrace.broker import Broker

# A group's name may contain a slash, and so may that of a virtual host: `Resources` looks at their paths itself.
_PATHS = (
    *topics.PATHS,
    *topic_parts.PATHS,
    *record_views.PATHS,
    *server_side.PATHS,
    "/v1/groups",
    "/v1/groups/{rest:path}",
    *brokered.PATHS,
    *dead_letters.PATHS,
    *dead_letter_topics.PATHS,
)


def resources(broker: Broker) -> Resources:
    found = (
        *server_side.operations(broker),
        *topics.OPERATIONS,
        *topic_parts.OPERATIONS,
        *groups.OPERATIONS,
        *group_offsets.OPERATIONS,
        *group_reset.OPERATIONS,
        *brokered.operations(broker),
        *record_views.OPERATIONS,
        *trial.OPERATIONS,
        *graph.OPERATIONS,
        *dead_letters.OPERATIONS,
        *dead_letter_topics.OPERATIONS,
    )
    return Resources(broker, found)


def routes(found: Resources) -> list[BaseRoute]:
    return found.routes(*_PATHS)
