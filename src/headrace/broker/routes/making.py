"""Which run a route has, by the types of its ends (see `ports`). What is inside the broker is made here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.routes.dead_letters import DeadLetterTopic
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.ends.topic import TopicTarget
from headrace.broker.routes.errors import RouteConflict
from headrace.broker.routes.exchange import ExchangeDestination
from headrace.broker.routes.inlet import Inflow, TopicInlet
from headrace.broker.routes.ports import Makers, Surroundings
from headrace.broker.routes.shaping import Shape
from headrace.broker.routes.topic import TopicDestination
from headrace.broker.routes.transfer import Transfer
from headrace.broker.traffic import Traffic

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.ends.end import End
    from headrace.broker.routes.hops import Hops
    from headrace.broker.routes.ports import Run
    from headrace.broker.routes.route import Route
    from headrace.broker.spans import Spans
    from headrace.log.port import Topic

Made = TypeVar("Made")
Replayed = Callable[["Route"], None]


def makers_inside() -> Makers:
    return Makers(destinations={ExchangeTarget.kind: _to_exchange, TopicTarget.kind: _to_topic})


def make_run(route: Route, makers: Makers, around: Surroundings, replayed: Replayed) -> Run | Awaitable[Run]:
    """A new life of a route whose topic is there. `replayed` is called when it has delivered the period that it shall deliver
    once more. Raises LogError, RouteError, OSError."""
    definition, topic = route.definition, route.topic
    assert topic is not None
    if definition.inbound:
        return _inflow(route, topic, makers, around)
    make = makers.runs.get(definition.target.kind)
    if make is not None:
        return make(definition, topic, route.positions, route.counts, around)
    destination = _maker(makers.destinations, definition.target)(definition, around)
    if isinstance(destination, Awaitable):
        return _transfer_later(destination, route, topic, around, replayed)
    return _transfer(destination, route, topic, around, replayed)


async def _transfer_later(
    destination: Awaitable[Destination], route: Route, topic: Topic, around: Surroundings, replayed: Replayed
) -> Run:
    return _transfer(await destination, route, topic, around, replayed)


def _transfer(destination: Destination, route: Route, topic: Topic, around: Surroundings, replayed: Replayed) -> Run:
    return Transfer(
        route.definition,
        topic,
        destination,
        DeadLetterTopic(route.definition, around.topics, around.clock),
        route.positions,
        route.counts,
        around.log,
        around.clock,
        around.after_sync,
        around.slots,
        Shape.of(route.definition, around.evaluator),
        route.replay,
        lambda: replayed(route),
        None if around.spans is None else _hops(around.spans, route.definition),
    )


def _hops(spans: Spans, definition: RouteDefinition) -> Hops:
    from headrace.broker.routes.hops import Hops  # a server without spans does not load it

    return Hops(spans, definition)


async def _inflow(route: Route, topic: Topic, makers: Makers, around: Surroundings) -> Run:
    definition = route.definition
    make = _maker(makers.intakes, definition.source)
    traffic = around.traffic.setdefault(definition.source.kind, Traffic())
    letters = DeadLetterTopic(definition, around.topics, around.clock)
    inlet = TopicInlet(definition, topic, letters, route.counts, traffic, around)
    intake = make(definition, inlet, around)
    return Inflow(await intake if isinstance(intake, Awaitable) else intake, inlet)


def _maker(makers: Mapping[str, Made], end: End) -> Made:
    make = makers.get(end.kind)
    if make is None:
        raise RouteConflict(f"this server has nothing that works at {end.label}")
    return make


def _to_exchange(definition: RouteDefinition, around: Surroundings) -> Destination:
    assert isinstance(definition.target, ExchangeTarget)
    return ExchangeDestination(definition.target, definition.topic, around.vhosts.get)


def _to_topic(definition: RouteDefinition, around: Surroundings) -> Destination:
    assert isinstance(definition.target, TopicTarget)
    return TopicDestination(definition.target, around.topics, around.clock)
