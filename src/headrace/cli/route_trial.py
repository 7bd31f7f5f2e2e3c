"""`headrace route test`: what a filter and a transform make of events."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headrace.cli.managing import ManagedSession, printable
from headrace.cli.route_ends import Filter, Headers, Key, Value, read_json, routes_of, transform_of
from headrace.cli.session import UsageError


def try_out(
    session: ManagedSession,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Try the last records of this topic.", show_default=False)
    ] = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=1000, help="How many of them.")] = 10,
    events: Annotated[
        str | None,
        typer.Option(
            "--events", metavar="FILE", help="Or an event as JSON, or a list of them; - for standard input.", show_default=False
        ),
    ] = None,
    filter: Filter = None,
    value: Value = None,
    key: Key = None,
    headers: Headers = None,
) -> None:
    """Try a filter and a transform: what they make of events. Nothing is changed."""
    if (topic is None) == (events is None):
        raise UsageError("give either --topic or --events")
    given = [] if events is None else read_json(events, "event")
    with routes_of(session) as api:
        results = api.try_out(
            filter=filter,
            transform=transform_of(value, key, headers),
            events=given if isinstance(given, list) else [given],
            topic=topic,
            last=last,
        )
    if session.json:
        session.emit({"results": results})
        return
    for one in results:
        session.say(f"{one['outcome']:<8} {_event(one['before'])}")
        if one.get("reason"):
            session.say(f"         {printable(one['reason'])}")
        elif one.get("after") is not None and one["after"] != one["before"]:
            session.say(f"      →  {_event(one['after'])}")


def _event(event: dict[str, Any]) -> str:
    parts = ("key", "key_base64", "value", "value_base64", "headers")
    found = {part: event[part] for part in parts if part in event and event[part] not in (None, [])}
    return printable(json.dumps(found, ensure_ascii=False))
