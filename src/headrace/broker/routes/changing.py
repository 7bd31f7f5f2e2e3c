"""What a route that is there may become: anything, as long as its position, and what waits for another attempt, still belong to
it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.routes.errors import RouteConflict

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.ports import Makers
    from headrace.broker.routes.route import Route


def check_change(there: Route, definition: RouteDefinition, makers: Makers) -> None:
    """Raises RouteConflict."""
    before = there.definition
    if before.target.kind != definition.target.kind and before.target.kind in makers.forget:
        raise RouteConflict(
            f"route '{definition.name}' goes to {before.target.label}, and some records may wait for another "
            "attempt: delete it first, or take another name"
        )
    if before.inbound != definition.inbound:
        raise RouteConflict(f"route '{definition.name}' goes the other way: delete it first, or take another name")
    if before.topic != definition.topic and not definition.inbound:
        raise RouteConflict(
            f"route '{definition.name}' reads topic '{before.topic}', and its position belongs to that: "
            "delete it first, or take another name"
        )
    if there.replay is not None and definition.target.kind in makers.runs:
        raise RouteConflict(f"route '{definition.name}' delivers a period once more: wait for its end, or cancel it")
