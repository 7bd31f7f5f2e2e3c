"""/v1/routes: the routes of the broker, listed, made, changed, paused, resumed, replayed, tried and deleted.

    GET     /v1/routes                  {"routes": […]}; ?pattern=&topic=&type=&state=
    POST    /v1/routes/test             what a filter and a transform make of events; changes nothing (`route_trial`)
    GET     /v1/routes/{name}           one of them
    PUT     /v1/routes/{name}           makes it (201), or changes it (200); "from" is where a new one begins
    DELETE  /v1/routes/{name}           204
    POST    /v1/routes/{name}/pause     /resume
    POST    /v1/routes/{name}/replay    {"from": …, "to": …, "partition": …}
    DELETE  /v1/routes/{name}/replay    the rest of a period is not delivered

Who may do what, beyond `v1.operations`: to an exchange, its virtual host must be open to the user, and to make or change the
route the user must be allowed to write to the exchange; to a topic, to write to that; and to read the topic that is the source.
Secrets are never shown, but for one that the server made up, once, to whoever made the route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.routes.definition import RouteDefinition, check_route_name
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.ends.parsing import check_members
from headrace.broker.routes.ends.topic import TopicTarget
from headrace.broker.routes.errors import InvalidRoute, UnknownRoute
from headrace.broker.routes.positions import Place
from headrace.broker.vhosts.users import check_exchange_access
from headrace.http import route_trial
from headrace.http.problems import Problem
from headrace.http.route_page import page
from headrace.http.v1.access import check_topic_access
from headrace.http.v1.listing import compiled
from headrace.http.v1.operations import NO_CONTENT, Ask, Operation, Parameter, Reply, Resources

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from headrace.broker import Broker
    from headrace.broker.routes.ends.end import End
    from headrace.broker.routes.route import Route
    from headrace.broker.vhosts.users import User

STEP = 50  # routes, after which others have their turn

_SEE_ALL = {"monitoring", "administrator"}
_OBJECT = dict[str, Any]


class RouteBody(Struct, rename={"start": "from"}):
    """A route as people want it. One end is a topic."""

    destination: Annotated[_OBJECT, Meta(description="By `type`: exchange, topic, webhook, zmq, udp.")]
    source: Annotated[_OBJECT | None, Meta(description="By `type`: topic, webhook, zmq, udp.")] = None
    topic: Annotated[str | None, Meta(description="Short for a source that is a topic.")] = None
    filter: Annotated[str | None, Meta(description="CEL: `value.amount > 100`.")] = None
    transform: Annotated[dict[str, str] | None, Meta(description="CEL for value, key, headers; each optional.")] = None
    on_failure: Annotated[str, Meta(description="dead-letter or skip.")] = "dead-letter"
    paused: bool = False
    start: Annotated[str | int, Meta(description="Where a new one begins: earliest, latest, an offset or a time.")] = "earliest"


class Standing(Struct):
    partition: int
    position: int
    end: int
    lag: int


class ReplayPartition(Struct, rename={"start": "from"}):
    partition: int
    start: int
    to: int
    position: int


class ReplayShown(Struct):
    left: int
    partitions: list[ReplayPartition]


class RouteShown(Struct):
    """A route and what it does. The counts are since the start of the server."""

    name: str
    source: _OBJECT
    filter: str | None
    transform: dict[str, str] | None
    destination: _OBJECT
    on_failure: str
    paused: bool
    topic: Annotated[str, Meta(description="The one that it reads, or fills from outside.")]
    source_label: str
    destination_label: str
    state: Annotated[str, Meta(description="running, blocked, waiting, paused or disabled.")]
    error: str | None
    group: str | None
    dead_letter_topic: str
    lag: int
    partitions: list[Standing]
    replay: ReplayShown | None
    delivered: int
    replayed: int
    filtered: int
    dead_lettered: int
    skipped: int
    lost: int
    details: _OBJECT


class RouteList(Struct):
    routes: list[RouteShown]


class ReplayBody(Struct, rename={"start": "from"}):
    start: Annotated[str | int, Meta(description="earliest, latest, an offset, or a time.")]
    to: Annotated[str | int | None, Meta(description="The end of a period, without it.")] = None
    partition: int | None = None


def routes(broker: Broker) -> list[BaseRoute]:
    return [*Resources(broker, OPERATIONS).routes(*PATHS), page()]


# --- looking


async def _list(ask: Ask) -> Reply:
    wanted = compiled(ask.query.get("pattern", ""))
    found: list[dict[str, object]] = []
    for count, route in enumerate(ask.broker.routes, 1):
        if _sees(ask.user, route) and (wanted is None or wanted.match(route.definition.name)) and _is_asked_for(ask, route):
            found.append(shown(route))
        if count % STEP == 0:
            await asyncio.sleep(0)
    return Reply(200, {"routes": found})


def _is_asked_for(ask: Ask, route: Route) -> bool:
    definition = route.definition
    ends = (definition.source, definition.target)
    topics = {definition.topic} | ({definition.target.topic} if isinstance(definition.target, TopicTarget) else set())
    return (
        ask.query.get("topic", definition.topic) in topics
        and ask.query.get("type", definition.target.kind) in {end.kind for end in ends}
        and ask.query.get("state", str(route.state)) == str(route.state)
    )


async def _get(ask: Ask) -> Reply:
    return Reply(200, shown(_route(ask)))


# --- changing


async def _put(ask: Ask) -> Reply:
    name, body = ask["name"], _object(ask)
    start = Place.of(body["from"]) if "from" in body else None
    definition = RouteDefinition.of(name, {member: value for member, value in body.items() if member != "from"})
    before = next((route.definition for route in ask.broker.routes if route.definition.name == name), None)
    if before is not None:
        _route(ask, change=True)
    _check_ends(ask.user, definition)
    route, new = await ask.broker.routes.put(definition, start)
    made = _made_up(definition, route.definition, before)
    return Reply(201 if new else 200, {**shown(route), **({} if made is None else {"secret": made})})


def _check_ends(user: User, definition: RouteDefinition) -> None:
    if isinstance(definition.target, ExchangeTarget):
        _check_exchange(user, definition.target)
    if isinstance(definition.target, TopicTarget):
        check_topic_access(user, "write", definition.target.topic)
    if not definition.inbound:
        check_topic_access(user, "read", definition.topic)


def _check_exchange(user: User, target: ExchangeTarget) -> None:
    if target.vhost not in user.permissions:
        raise Problem(403, "forbidden", f"vhost '{target.vhost}' is not open to user '{user.name}'")
    try:
        check_exchange_access(user, "write", target.exchange, target.vhost)
    except AmqpRefusal as refusal:
        raise Problem(403, "forbidden", refusal.text) from None


def _made_up(given: RouteDefinition, stored: RouteDefinition, before: RouteDefinition | None) -> str | None:
    """A secret that nobody gave, and that was not there before."""
    known = [] if before is None else [*_secrets(before.source), *_secrets(before.target)]
    for wanted, end in ((given.source, stored.source), (given.target, stored.target)):
        for secret in _secrets(end):
            if secret not in _secrets(wanted) and secret not in known:
                return secret
    return None


def _secrets(end: End) -> list[str]:
    found = end.json().get("secrets")
    if not isinstance(found, list):
        return []
    return [str(one["secret"]) if isinstance(one, Mapping) else str(one) for one in found]


async def _delete(ask: Ask) -> Reply:
    _route(ask, change=True)
    await ask.broker.routes.delete(ask["name"])
    return NO_CONTENT


async def _pause(ask: Ask) -> Reply:
    _route(ask, change=True)
    check_members(_object(ask), (), "")
    return Reply(200, shown(await ask.broker.routes.pause(ask["name"])))


async def _resume(ask: Ask) -> Reply:
    _route(ask, change=True)
    check_members(_object(ask), (), "")
    return Reply(200, shown(await ask.broker.routes.resume(ask["name"])))


async def _replay(ask: Ask) -> Reply:
    _route(ask, change=True)
    body = _object(ask)
    check_members(body, ("from", "to", "partition"), "")
    partition = body.get("partition")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
        raise InvalidRoute("partition must be the number of one")
    start = Place.of(body.get("from"))
    if body.get("to") is None:
        return Reply(200, shown(await ask.broker.routes.replay(ask["name"], start, partition)))
    end = Place.of(body["to"], "to")
    route, period = await ask.broker.routes.replay_period(ask["name"], start, end, partition)
    return Reply(202, {**shown(route), "replay": period})


async def _cancel_replay(ask: Ask) -> Reply:
    _route(ask, change=True)
    return Reply(200, shown(await ask.broker.routes.cancel_replay(ask["name"])))


# --- inside


def _object(ask: Ask) -> Mapping[str, Any]:
    """Nothing at all counts as an empty one."""
    return ask.body(dict[str, Any])


def _route(ask: Ask, *, change: bool = False) -> Route:
    """One that the user may see, or change."""
    name = ask["name"]
    check_route_name(name)
    route = ask.broker.routes.get(name)
    vhost = _vhost(route)
    if not _sees(ask.user, route):
        raise UnknownRoute(f"there is no route '{name}'")
    if change and vhost is not None and vhost not in ask.user.permissions:
        raise Problem(403, "forbidden", f"vhost '{vhost}' is not open to user '{ask.user.name}'")
    return route


def _vhost(route: Route) -> str | None:
    """The virtual host that it publishes to, if it does."""
    target = route.definition.target
    return target.vhost if isinstance(target, ExchangeTarget) else None


def _sees(user: User, route: Route) -> bool:
    vhost = _vhost(route)
    return vhost is None or bool(_SEE_ALL.intersection(user.tags)) or vhost in user.permissions


def shown(route: Route) -> dict[str, object]:
    definition, counts, topic = route.definition, route.counts, route.topic
    standings = route.standings()
    facts = getattr(route.run, "facts", None)
    return {
        "name": definition.name,
        **definition.shown(),
        "topic": definition.topic,
        "source_label": definition.source.label,
        "destination_label": definition.target.label,
        "state": str(route.state),
        "error": route.error,
        "group": None if definition.inbound else definition.group_id,
        "dead_letter_topic": definition.dead_letter_topic,
        "lag": sum(standing.lag for standing in standings),
        "partitions": [
            {"partition": one.partition, "position": one.position, "end": one.end, "lag": one.lag} for one in standings
        ],
        "replay": None if route.replay is None or topic is None else route.replay.shown(topic),
        "delivered": counts.delivered,
        "replayed": counts.replayed,
        "filtered": counts.filtered,
        "dead_lettered": counts.dead_lettered,
        "skipped": counts.skipped,
        "lost": counts.lost,
        "details": {} if facts is None else facts(),
    }


_ONE = "/v1/routes/{name}"
OPERATIONS = (
    Operation(
        "GET", "/v1/routes", "Lists routes", _list, answer=RouteList,
        query=(
            Parameter("pattern", "Only names that match this glob."),
            Parameter("topic", "Only those with this topic at one end."),
            Parameter("type", "Only those with an end of this type: exchange, topic, webhook, zmq, udp."),
            Parameter("state", "Only those in this state."),
        ),
    ),
    Operation(
        "POST", "/v1/routes/test", "Tries a filter and a transform", route_trial.try_out, route_trial.Trial, route_trial.Tried,
        problems=(404,), description="On events that are given, or on the last records of a topic. Nothing is changed.",
    ),
    Operation("GET", _ONE, "Describes a route", _get, answer=RouteShown, problems=(404,)),
    Operation(
        "PUT", _ONE, "Makes a route, or changes it", _put, RouteBody, RouteShown, problems=(409, 503), change=True,
        description="201 if it is new. A secret that the server made up is in the answer as `secret`, this once.",
    ),
    Operation("DELETE", _ONE, "Deletes a route with its position", _delete, status=204, problems=(404, 503), change=True),
    Operation("POST", f"{_ONE}/pause", "Stops a route", _pause, answer=RouteShown, problems=(404, 503), change=True),
    Operation("POST", f"{_ONE}/resume", "Lets it go on", _resume, answer=RouteShown, problems=(404, 503), change=True),
    Operation(
        "POST", f"{_ONE}/replay", "Delivers again", _replay, ReplayBody, RouteShown, problems=(404, 409, 503), change=True,
        description="Without `to` its position moves to `from`. With it just that period is delivered once more, beside what "
        "it delivers anyway, and the answer is 202; its progress is `replay` of the route.",
    ),
    Operation(
        "DELETE", f"{_ONE}/replay", "Ends the delivery of a period", _cancel_replay, answer=RouteShown,
        problems=(404, 503), change=True,
    ),
)  # fmt: skip
PATHS = ("/v1/routes", "/v1/routes/test", _ONE, f"{_ONE}/pause", f"{_ONE}/resume", f"{_ONE}/replay")
