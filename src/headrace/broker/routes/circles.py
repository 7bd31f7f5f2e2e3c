"""Routes that would feed each other for ever: what one delivers comes back into the topic that it reads.

A route leads from its topic to the topic that is its destination, or through an exchange to the topics of the stream queues
that get its messages: those of its fixed routing key, or else those that get messages of every key. What bindings do with the
keys of records, and what is bound later, nobody knows beforehand; so such a circle may still be made. Dead letters lead
nowhere: a route that takes them back where they came from is one that somebody wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace.broker.queues.stream import StreamQueue
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.ends.topic import TopicTarget

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.vhosts.vhost import VirtualHost

_ANY_KEY = "\0any"  # what is bound to this is bound to everything

FindVhost = Callable[[str], "VirtualHost | None"]


def circle_of(definition: RouteDefinition, others: Iterable[RouteDefinition], find_vhost: FindVhost) -> list[str] | None:
    """The topics on the way round, beginning and ending with the one that the route reads; None if there is no way round."""
    if definition.inbound:
        return None
    routes: dict[str, list[RouteDefinition]] = {}
    for other in others:
        if not other.inbound and other.name != definition.name:
            routes.setdefault(other.topic, []).append(other)
    home = definition.topic
    ways = [[home, topic] for topic in _leads_to(definition, find_vhost)]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        if way[-1] == home:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, topic] for other in routes.get(way[-1], ()) for topic in _leads_to(other, find_vhost)]
    return None


def _leads_to(definition: RouteDefinition, find_vhost: FindVhost) -> set[str]:
    target = definition.target
    if isinstance(target, TopicTarget):
        return {target.topic}
    if not isinstance(target, ExchangeTarget):
        return set()
    vhost = find_vhost(target.vhost)
    if vhost is None or (target.exchange and target.exchange not in vhost.exchanges):
        return set()
    key = _ANY_KEY if target.routing_key is None else target.routing_key
    queues = vhost.router.route(target.exchange, key, dict)
    return {queue.topic for queue in queues if isinstance(queue, StreamQueue)} - {definition.topic}  # its own is left out
