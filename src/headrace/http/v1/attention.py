"""What a person should look at: the worst first, at most `MOST_ITEMS`, each with the page of the console that shows more.

error      writes are refused; a route is disabled
warning    the disk is nearly full; publishers have to wait; the event loop is held up; blocked routes; errors in the log; dead
           letters in queues
info       groups without members that are behind; routes that are paused, or far behind; queues that fill up without
           consumers; durability that was relaxed

The group with which a route keeps its position is never named here: the route is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from msgspec import Meta, Struct

from headrace import logs
from headrace.broker.routes.errors import UnknownRoute
from headrace.broker.routes.route import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker import Broker
    from headrace.times import Times

MOST_ITEMS = 20
MOST_OF_A_KIND = 5
LOW_DISK = 0.1  # of it is free
MANY_MESSAGES = 10_000  # in a queue without consumers, or before a route that runs
RECENT_MS = 10 * 60_000  # lines of the log
_SLOW_S = 0.1  # of the event loop
_TROUBLED = {"blocked": "warning", "disabled": "error"}
_SEVERITIES = ("error", "warning", "info")


class Attention(Struct):
    severity: Annotated[str, Meta(description="error, warning or info.")]
    text: str
    link: Annotated[str, Meta(description="The page of the console that shows more.")]


def of_storage(refusal: str | None, usable_bytes: int, total_bytes: int) -> list[Attention]:
    items = [] if refusal is None else [Attention("error", f"Writes are refused: {refusal}", "/storage")]
    free = usable_bytes / max(1, total_bytes)
    if free < LOW_DISK:
        items.append(Attention("warning", f"Only {free:.0%} of the disk is free", "/storage"))
    return items


def of_server(broker: Broker) -> list[Attention]:
    items = []
    if broker.clients.alarm:
        items.append(Attention("warning", f"AMQP publishers have to wait: {broker.clients.alarm}", "/connections"))
    if (durability := broker.settings.get_str("durability")) != "fsync":
        lost = "process" if durability == "memory" else "power"
        items.append(
            Attention("info", f"Durability is {durability}: an acknowledged write may go with the {lost}", "/settings")
        )
    return items


def of_loop(delays: Times, before: Sequence[int]) -> list[Attention]:
    """`before` are the counts some time ago: what was long ago needs nobody's attention."""
    counts = [now - then for now, then in zip(delays.counts, before, strict=True)]
    late = sum(count for bound, count in zip((*delays.bounds_s, float("inf")), counts, strict=True) if bound > _SLOW_S)
    if late * 100 <= sum(counts):
        return []
    return [Attention("warning", "The event loop is often held up: see headrace_event_loop_delay_seconds", "/health")]


def of_log(now_ms: int) -> list[Attention]:
    kept = logs.kept()
    count = 0
    for line in kept.newest_first() if kept is not None else ():
        if line.time_ms < now_ms - RECENT_MS:
            break
        count += line.level >= logging.ERROR
    if not count:
        return []
    return [Attention("warning", f"{count:,} errors in the log in the last {RECENT_MS // 60_000} minutes", "/health")]


def of_routes(broker: Broker) -> list[Attention]:
    found = []
    for route in broker.routes:
        severity = _TROUBLED.get(str(route.state))
        if severity is not None:
            name = route.definition.name
            found.append(Attention(severity, f"Route {name} is {route.state}", f"/routes/{quote(name, safe='')}"))
    return found[:MOST_ITEMS]


def of_group(group: str, lag: int) -> Attention:
    return Attention("info", f"Group {group} has no members and is {lag:,} records behind", f"/groups/{quote(group, safe='')}")


def of_route_behind(broker: Broker, name: str, lag: int) -> Attention | None:
    """None where there is nothing to say, or `of_routes` says it."""
    try:
        state = broker.routes.get(name).state
    except UnknownRoute:  # deleted just now
        return None
    link = f"/routes/{quote(name, safe='')}"
    if state is State.PAUSED:
        return Attention("info", f"Route {name} is paused, and {lag:,} records wait for it", link)
    if state is State.RUNNING and lag >= MANY_MESSAGES:
        return Attention("info", f"Route {name} is {lag:,} records behind", link)
    return None


def of_queue(vhost: str, queue: str, messages: int) -> Attention:
    link = f"/queues/{quote(vhost, safe='')}/{quote(queue, safe='')}"
    return Attention("info", f"Queue {queue} holds {messages:,} messages and has no consumers", link)


def of_dead_letters(vhost: str, queue: str, messages: int) -> Attention:
    link = f"/dead-letters/{quote(vhost, safe='')}/{quote(queue, safe='')}"
    many = "1 dead letter" if messages == 1 else f"{messages:,} dead letters"
    return Attention("warning", f"Queue {queue} holds {many}", link)


def worst_first(items: list[Attention]) -> list[Attention]:
    return sorted(items, key=lambda item: _SEVERITIES.index(item.severity))[:MOST_ITEMS]
