"""`headrace route`: list, show, create, pause, resume, replay, delete."""

from __future__ import annotations

import time
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
from headrace.cli.moments import FORMS, NotATime, iso, moment_ms
from headrace.cli.session import UsageError
from headrace.client.management import NotFound
from headrace.client.routes import Route, RoutesClient

app = typer.Typer(
    no_args_is_help=True, help="Routes from topics to exchanges: list, show, create, pause, resume, replay, delete."
)

Name = Annotated[str, typer.Argument(metavar="ROUTE", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="ROUTE", show_default=False)]
_PLACES = f"earliest, latest, an offset, or {FORMS}"


class OnFailure(StrEnum):
    DEAD_LETTER = "dead-letter"
    SKIP = "skip"


def list_(session: ManagedSession, pattern: Pattern = None, watch: Watch = False, every: Every = 2.0) -> None:
    """List routes, what they do and how far they are behind."""
    wanted = matcher(pattern)

    def show_them() -> None:
        with _routes(session) as api:
            routes = [route for route in api.all() if wanted(route.name)]
        if session.json:
            session.emit({"routes": [route.json for route in routes]})
        elif routes:
            session.table(
                ("ROUTE", "TOPIC", "TO", "STATE", "LAG", "ERROR"),
                [(one.name, one.topic, _destination(one), one.state, one.lag, one.error) for one in routes],
            )
        else:
            session.note("No such routes.")

    again_and_again(session, show_them, watch=watch, every=every)


def show(session: ManagedSession, routes: Names) -> None:
    """Show settings, state and positions."""
    shown: list[Route] = []
    with _routes(session) as api:
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
    session.say(f"topic         {route.topic}")
    session.say(f"destination   {printable(_destination(route))}")
    session.say(f"state         {route.state}" + (f": {printable(route.error)}" if route.error else ""))
    session.say(f"on failure    {route.on_failure}" + _dead_letters(route))
    session.say(f"group         {told.get('group')}")
    counts = ("delivered", "dead_lettered", "skipped", "lost")
    session.say("since start   " + ", ".join(f"{told.get(name, 0)} {name.replace('_', '-')}" for name in counts))
    if told.get("partitions"):
        session.say("")
        session.table(
            ("PARTITION", "POSITION", "END", "LAG"),
            [(one["partition"], one["position"], one["end"], one["lag"]) for one in told["partitions"]],
        )


def _dead_letters(route: Route) -> str:
    return f" to {route.json.get('dead_letter_topic')}" if route.on_failure == OnFailure.DEAD_LETTER else ""


def _destination(route: Route) -> str:
    to = route.destination
    if to.get("type") != "exchange":
        return str(to.get("type", "?"))
    vhost = "" if to.get("vhost") == "/" else f" in vhost '{to.get('vhost')}'"
    key = "" if to.get("routing_key") is None else f" key {to['routing_key']!r}"
    return f"exchange {to.get('exchange') or 'amq.default'}{vhost}{key}{'' if to.get('mandatory') else ', optional'}"


def create(
    session: ManagedSession,
    route: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to read.", show_default=False)],
    exchange: Annotated[
        str,
        typer.Option(
            "--exchange", "-x", help="The exchange to publish to; amq.default is the default one.", show_default=False
        ),
    ],
    routing_key: Annotated[
        str | None, typer.Option("--routing-key", "-k", help="In place of each record's own key.", show_default=False)
    ] = None,
    start: Annotated[str, typer.Option("--from", metavar="WHERE", help=f"Where a new route begins: {_PLACES}.")] = "earliest",
    on_failure: Annotated[
        OnFailure, typer.Option("--on-failure", help="What becomes of records that can't be delivered.")
    ] = OnFailure.DEAD_LETTER,
    optional: Annotated[bool, typer.Option("--optional", help="A record that no queue takes is no failure.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Begin when it is resumed.")] = False,
) -> None:
    """Make a route from a topic to an exchange, or give one that exists another destination or other options."""
    destination: dict[str, object] = {
        "type": "exchange",
        "vhost": session.vhost,
        "exchange": "" if exchange == "amq.default" else exchange,
        "routing_key": routing_key,
        "mandatory": not optional,
    }
    with _routes(session) as api:
        made = api.put(
            route, topic=topic, destination=destination, on_failure=on_failure.value, paused=paused, start=_place(start)
        )
    _done(session, made, made.state)


def pause(session: ManagedSession, routes: Names) -> None:
    """Stop routes; they keep their positions."""
    _each(session, routes, RoutesClient.pause)


def resume(session: ManagedSession, routes: Names) -> None:
    """Let paused routes go on where they stopped."""
    _each(session, routes, RoutesClient.resume)


def _each(session: ManagedSession, names: list[str], act: Callable[[RoutesClient, str], Route]) -> None:
    done: list[Route] = []
    with _routes(session) as api:
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
        str, typer.Option("--from", metavar="WHERE", help=f"Deliver again from here: {_PLACES}.", show_default=False)
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this one.", show_default=False)
    ] = None,
    yes: Yes = False,
) -> None:
    """Move the position of a route: what lies behind it is delivered again, what lies before it is not delivered."""
    place = _place(start)
    confirm(session, f"Move route {route} to {start}?", yes=yes)
    with _routes(session) as api, _named(session, route, api):
        moved = api.replay(route, place, partition)
    _done(session, moved, f"{moved.lag} to deliver")


def delete(
    session: ManagedSession,
    routes: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="One that does not exist is no error.")] = False,
    yes: Yes = False,
) -> None:
    """Delete routes with their positions; dead letters stay."""
    confirm(session, f"Delete route {', '.join(routes)}?", yes=yes)
    done: list[dict[str, Any]] = []
    with _routes(session) as api:
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


def _place(text: str) -> str | int:
    """As the server takes it."""
    if text in ("earliest", "latest"):
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = moment_ms(text, time.time_ns() // 1_000_000)
    except NotATime as error:
        raise UsageError(str(error)) from None
    if moment is None:
        raise UsageError(f"{text!r} is no place to begin: use {_PLACES}")
    return iso(moment)


@contextmanager
def _routes(session: ManagedSession) -> Iterator[RoutesClient]:
    with RoutesClient(session.url, user=session.user, password=session.password, timeout_s=session.timeout_s) as api:
        yield api


@contextmanager
def _named(session: ManagedSession, name: str, api: RoutesClient) -> Iterator[None]:
    with named("route", name, session, lambda: [route.name for route in api.all()]):
        yield


_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "create": create,
    "pause": pause,
    "resume": resume,
    "replay": replay,
    "delete": delete,
}
for _name, _function in _COMMANDS.items():
    add_managed_command(app, _name, _function, vhost=_name == "create")
