"""Makes the ends of routes whose type is `udp`. Imported when the first such route begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.routes.ends.multicast import FeedSource, FeedTarget
from headrace.broker.routes.errors import RouteConflict
from headrace.broker.routes.positions import Positions
from headrace.multicast.sending import FeedDestination
from headrace.multicast.sessions import session_of
from headrace.multicast.taking import FeedIntake

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.ports import Inlet, Run, Surroundings


def make_destination(definition: RouteDefinition, surroundings: Surroundings) -> Destination:
    """Raises OSError if there is no such interface."""
    assert isinstance(definition.target, FeedTarget)
    topic = surroundings.topics.get(definition.topic)
    if topic is None:
        raise RouteConflict(f"there is no topic '{definition.topic}'")
    return FeedDestination(
        definition, definition.target, topic, Positions(definition.group_id, surroundings.groups), surroundings
    )


def make_intake(definition: RouteDefinition, inlet: Inlet, surroundings: Surroundings) -> Run:
    """Raises OSError if the group can't be joined."""
    assert isinstance(definition.source, FeedSource)
    topic = surroundings.topics.get(definition.topic)
    own = None if topic is None else session_of(topic, surroundings)
    return FeedIntake(definition, definition.source, inlet, surroundings, own)
