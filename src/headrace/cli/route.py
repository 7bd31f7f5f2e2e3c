"""`headrace route`: list, show, create, test, pause, resume, replay, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.cli.managing import (
    Every,
    ManagedSession,
    Pattern,
    Watch,
    Yes,
    add_managed_command,
    again_and_again,
    confirm,
    matcher,
    named,
    printable,
)
from headrace.cli.places import PLACES, place
from headrace.cli.route_ends import (
    Filter,
    FromTopic,
    FromUdp,
    FromWebhook,
    FromZmq,
    Headers,
    Key,
    Members,
    Optional,
    RoutingKey,
    ToExchange,
    ToTopic,
    ToUdp,
    ToUrl,
    ToZmq,
    Value,
    destination_of,
    read_json,
    routes_of,
    source_of,
    transform_of,
    with_members,
)
from headrace.cli.route_trial import try_out
from headrace.cli.session import UsageError
from headrace.client.management import NotFound
from headrace.client.routes import Route, RoutesClient

app = typer.Typer(
    no_args_is_help=True,
    help="Routes between topics and exchanges, webhooks, sockets and feeds: list, show, create, test, pause, resume, replay, "
    "delete.",
)

Name = Annotated[str, typer.Argument(metavar="ROUTE", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="ROUTE", show_default=False)]


class OnFailure(StrEnum):
    DEAD_LETTER = "dead-letter"
    SKIP = "skip"


def list_(session: ManagedSession, pattern: Pattern = None, watch: Watch = False, every: Every = 2.0) -> None:
    """List routes, what they do and how far they are behind."""
    wanted = matcher(pattern)

    def show_them() -> None:
        with routes_of(session) as api:
            routes = [route for route in api.all() if wanted(route.name)]
        if session.json:
            session.emit({"routes": [route.json for route in routes]})
        elif routes:
            session.table(
                ("ROUTE", "FROM", "FILTER", "TO", "STATE", "LAG", "ERROR"),
                [
                    (one.name, _source(one), one.json.get("filter"), _destination(one), one.state, _lag(one), one.error)
                    for one in routes
                ],
            )
        else:
            session.note("No such routes.")

    again_and_again(session, show_them, watch=watch, every=every)


def show(session: ManagedSession, routes: Names) -> None:
    """Show settings, state and positions."""
    shown: list[Route] = []
    with routes_of(session) as api:
        for name in routes:
            with _named(session, name, api):
                shown.append(api.get(name))
    if session.json:
        session.emit({"routes": [route.json for route in shown]})
        return
    for number, route in enumerate(shown):
        if number:
            session.say("")
        _describe(session, route)


def _describe(session: ManagedSession, route: Route) -> None:
    told = route.json
    session.say(f"route         {route.name}")
    session.say(f"source        {printable(_source(route))}")
    if told.get("filter") is not None:
        session.say(f"filter        {printable(told['filter'])}")
    for part, text in (told.get("transform") or {}).items():
        session.say(f"{part:<13} {printable(text)}")
    session.say(f"destination   {printable(_destination(route))}")
    session.say(f"state         {route.state}" + (f": {printable(route.error)}" if route.error else ""))
    session.say(f"on failure    {route.on_failure}" + _dead_letters(route))
    if told.get("group") is not None:
        session.say(f"group         {told['group']}")
    if told.get("replay"):
        session.say(f"replay        {told['replay']['left']} to deliver")
    counts = ("delivered", "replayed", "filtered", "dead_lettered", "skipped", "lost")
    session.say("since start   " + ", ".join(f"{told.get(name, 0)} {name.replace('_', '-')}" for name in counts))
    if told.get("partitions"):
        session.say("")
        session.table(
            ("PARTITION", "POSITION", "END", "LAG"),
            [(one["partition"], one["position"], one["end"], one["lag"]) for one in told["partitions"]],
        )


def _dead_letters(route: Route) -> str:
    return f" to {route.json.get('dead_letter_topic')}" if route.on_failure == OnFailure.DEAD_LETTER else ""


def _lag(route: Route) -> int | None:
    return None if route.json.get("group") is None else route.lag


def _source(route: Route) -> str:
    if route.source.get("type", "topic") == "topic":
        return route.topic
    return str(route.json.get("source_label") or route.source.get("type"))


def _destination(route: Route) -> str:
    to = route.destination
    if to.get("type") != "exchange":
        return str(route.json.get("destination_label") or to.get("type", "?"))
    vhost = "" if to.get("vhost") == "/" else f" in vhost '{to.get('vhost')}'"
    key = "" if to.get("routing_key") is None else f" key {to['routing_key']!r}"
    return f"exchange {to.get('exchange') or 'amq.default'}{vhost}{key}{'' if to.get('mandatory') else ', optional'}"


def create(
    session: ManagedSession,
    route: Name,
    topic: FromTopic = None,
    from_webhook: FromWebhook = None,
    from_zmq: FromZmq = None,
    from_udp: FromUdp = None,
    exchange: ToExchange = None,
    to_topic: ToTopic = None,
    to_url: ToUrl = None,
    to_zmq: ToZmq = None,
    to_udp: ToUdp = None,
    routing_key: RoutingKey = None,
    optional: Optional = False,
    members: Members = [],  # noqa: B006
    filter: Filter = None,
    value: Value = None,
    key: Key = None,
    headers: Headers = None,
    definition: Annotated[
        str | None,
        typer.Option("--definition", metavar="FILE", help="All of it as JSON, in place of the rest; - for standard input."),
    ] = None,
    start: Annotated[str, typer.Option("--from", metavar="WHERE", help=f"Where a new route begins: {PLACES}.")] = "earliest",
    on_failure: Annotated[
        OnFailure, typer.Option("--on-failure", help="What becomes of records that can't be delivered.")
    ] = OnFailure.DEAD_LETTER,
    paused: Annotated[bool, typer.Option("--paused", help="Begin when it is resumed.")] = False,
) -> None:
    """Make a route from a topic to somewhere, or from somewhere to a topic; or change one that exists."""
    if definition is not None:
        given = read_json(definition, "definition of a route")
        if not isinstance(given, dict):
            raise UsageError("the definition of a route is a JSON object")
    else:
        source = source_of(topic, from_webhook, from_zmq, from_udp)
        published = _exchange(session, exchange, routing_key, optional)
        destination = destination_of(published, to_topic, to_url, to_zmq, to_udp)
        if source["type"] == "topic":
            destination = with_members(destination, members)
        else:
            source = with_members(source, members)
        given = {
            "source": source,
            "filter": filter,
            "transform": transform_of(value, key, headers),
            "destination": destination,
            "on_failure": on_failure.value,
            "paused": paused,
            "from": place(start),
        }
    with routes_of(session) as api:
        made = api.define(route, given)
    _done(session, made, made.state)
    if made.json.get("secret") and not session.json:
        session.say(f"secret: {made.json['secret']} (it is not shown again)")


def _exchange(session: ManagedSession, name: str | None, routing_key: str | None, optional: bool) -> dict[str, Any] | None:
    if name is None:
        return None
    return {
        "type": "exchange",
        "vhost": session.vhost,
        "exchange": "" if name == "amq.default" else name,
        "routing_key": routing_key,
        "mandatory": not optional,
    }


def pause(session: ManagedSession, routes: Names) -> None:
    """Stop routes; they keep their positions."""
    _each(session, routes, RoutesClient.pause)


def resume(session: ManagedSession, routes: Names) -> None:
    """Let paused routes go on where they stopped."""
    _each(session, routes, RoutesClient.resume)


def _each(session: ManagedSession, names: list[str], act: Callable[[RoutesClient, str], Route]) -> None:
    done: list[Route] = []
    with routes_of(session) as api:
        try:
            for name in names:
                with _named(session, name, api):
                    done.append(act(api, name))
                if not session.json:
                    _done(session, done[-1], done[-1].state)
        finally:
            if session.json:
                session.emit({"routes": [route.json for route in done]})


def replay(
    session: ManagedSession,
    route: Name,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help=f"Deliver again from here: {PLACES}.", show_default=False)
    ],
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="WHERE", help="Just up to here, without it, and beside what it delivers anyway.", show_default=False
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this one.", show_default=False)
    ] = None,
    yes: Yes = False,
) -> None:
    """Move the position of a route: what lies behind it is delivered again, what lies before it is not delivered. With --to the
    position stays, and a period is delivered once more."""
    begin, limit = place(start), None if end is None else place(end)
    question = f"Move route {route} to {start}?" if end is None else f"Deliver {start} to {end} of route {route} once more?"
    confirm(session, question, yes=yes)
    with routes_of(session) as api, _named(session, route, api):
        moved = api.replay(route, begin, partition, limit)
    left = moved.lag if limit is None else (moved.json.get("replay") or {}).get("left", 0)
    _done(session, moved, f"{left} to deliver")


def cancel_replay(session: ManagedSession, route: Name) -> None:
    """End the delivery of a period: the rest of it is not delivered."""
    with routes_of(session) as api, _named(session, route, api):
        _done(session, api.cancel_replay(route), "delivers no period")


def delete(
    session: ManagedSession,
    routes: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="One that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete routes with their positions; dead letters stay."""
    confirm(session, f"Delete route {', '.join(routes)}?", yes=yes)
    done: list[dict[str, Any]] = []
    with routes_of(session) as api:
        try:
            for name in routes:
                deleted = True
                with _named(session, name, api):
                    try:
                        api.delete(name)
                    except NotFound:
                        if not if_exists:
                            raise
                        deleted = False
                done.append({"name": name, "deleted": deleted})
                if not session.json:
                    session.say(f"{name}: {'deleted' if deleted else 'does not exist'}")
        finally:
            if session.json:
                session.emit({"routes": done})


def _done(session: ManagedSession, route: Route, text: str) -> None:
    if session.json:
        session.emit(route.json)
    else:
        session.say(f"{route.name}: {text}" + (f" ({printable(route.error)})" if route.error else ""))


@contextmanager
def _named(session: ManagedSession, name: str, api: RoutesClient) -> Iterator[None]:
    with named("route", name, session, lambda: [route.name for route in api.all()]):
        yield


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "create": create,
    "test": try_out,
    "pause": pause,
    "resume": resume,
    "replay": replay,
    "cancel-replay": cancel_replay,
    "delete": delete,
}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=_name == "create")
