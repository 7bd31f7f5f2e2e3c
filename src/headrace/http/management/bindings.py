"""/api/bindings, and the bindings of an exchange or a queue. Every queue is bound to the default exchange by its own name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_plus

from headrace.broker.exchanges import Exchange
from headrace.broker.exchanges.binding import properties_key
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.users import check_exchange_access, check_queue_access
from headrace.http.management.call import NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import missing
from headrace.http.management.exchanges import DEFAULT, exchange_named
from headrace.http.management.listing import listed
from headrace.http.management.queues import queue_named

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.vhost import VirtualHost

Row = dict[str, Any]


def _row(vhost: VirtualHost, source: str, destination: str, kind: str, key: str, arguments: Any) -> Row:
    return {
        "source": source,
        "vhost": vhost.name,
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": json_table(arguments),
        "properties_key": properties_key(key, arguments),
    }


def _rows(vhost: VirtualHost, bindings: Iterable[Any]) -> Iterator[Row]:
    for each in bindings:
        yield _row(vhost, each.source.name, each.destination.name, each.destination_kind, each.routing_key, each.arguments)


def _default(vhost: VirtualHost, queues: Iterable[AnyQueue]) -> Iterator[Row]:
    return (_row(vhost, "", queue.name, "queue", queue.name, {}) for queue in queues)


async def _listed(call: Call, rows: Iterable[Row]) -> object:
    found = sorted(rows, key=lambda row: (row["vhost"], row["source"], row["destination"], row["routing_key"]))
    return await listed(call.query, found, lambda row: row, lambda row: str(row["source"]))


async def _all(call: Call) -> object:
    rows: list[Row] = []
    for vhost in call.vhosts():
        rows += _default(vhost, vhost.queues.values())
        rows += _rows(vhost, vhost.router.bindings())
    return await _listed(call, rows)


async def _from(call: Call) -> object:
    """Of an exchange that is not there: none."""
    vhost = call.vhost()
    exchange = DEFAULT if call["name"] in ("", "amq.default") else vhost.exchanges.get(call["name"])
    if exchange is DEFAULT:
        return await _listed(call, _default(vhost, vhost.queues.values()))
    return await _listed(call, _rows(vhost, vhost.router.bindings_from(exchange)) if exchange is not None else ())


async def _to_exchange(call: Call) -> object:
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call["name"])
    return await _listed(call, _rows(vhost, vhost.router.bindings_to(exchange)) if exchange is not None else ())


async def _to_queue(call: Call) -> object:
    vhost = call.vhost()
    queue = queue_named(call, vhost)
    return await _listed(call, [*_default(vhost, [queue]), *_rows(vhost, vhost.router.bindings_to(queue))])


# --- between two ends


def _ends(call: Call) -> tuple[VirtualHost, Exchange, AnyQueue | Exchange]:
    vhost = call.vhost()
    source = exchange_named(vhost, call["source"])
    if call["kind"] == "e":
        return vhost, source, exchange_named(vhost, call["name"])
    if call["kind"] != "q":
        raise missing()
    return vhost, source, queue_named(call, vhost)


def _between(call: Call) -> list[Row]:
    vhost, source, destination = _ends(call)
    if source is DEFAULT:
        return [] if isinstance(destination, Exchange) else list(_default(vhost, [destination]))
    return list(_rows(vhost, (each for each in vhost.router.bindings_to(destination) if each.source is source)))


async def _list_between(call: Call) -> object:
    return await _listed(call, _between(call))


async def _bind(call: Call) -> Answer:
    vhost, body = call.vhost_to_use(), call.body()
    key, arguments = body.text("routing_key"), body.table("arguments")
    source, name = call["source"], call["name"]
    check_exchange_access(call.user, "read", source, vhost.name)
    if call["kind"] == "q":
        check_queue_access(call.user, "write", name, vhost.name)
        vhost.bind_queue(name, source, key, arguments)
    elif call["kind"] == "e":
        check_exchange_access(call.user, "write", name, vhost.name)
        vhost.bind_exchange(name, source, key, arguments)
    else:
        raise missing()
    await call.durable()
    location = f"{quote(name, safe='')}/{quote(properties_key(key, arguments), safe='~')}"
    return Answer(201, None, {"location": location})


def _one(call: Call) -> Row:
    """By its properties key, quoted once (as it stands in paths) or twice (as in the answer to a binding)."""
    rows = _between(call)
    found = next((row for row in rows if row["properties_key"] == call["key"]), None)
    if found is None:
        found = next((row for row in rows if unquote_plus(row["properties_key"]) == unquote_plus(call["key"])), None)
    if found is None:
        raise missing()
    return found


async def _get_one(call: Call) -> object:
    return _one(call)


async def _unbind(call: Call) -> Answer:
    call.vhost_to_use()
    vhost, source, destination = _ends(call)
    wanted = _one(call)["properties_key"]
    check_exchange_access(call.user, "read", source.name, vhost.name)
    for each in tuple(vhost.router.bindings_to(destination)):
        if each.source is source and each.properties_key == wanted:
            if isinstance(destination, Exchange):
                check_exchange_access(call.user, "write", destination.name, vhost.name)
                vhost.unbind_exchange(destination.name, source.name, each.routing_key, each.arguments)
            else:
                check_queue_access(call.user, "write", destination.name, vhost.name)
                vhost.unbind_queue(destination.name, source.name, each.routing_key, each.arguments)
    await call.durable()
    return NO_CONTENT


RESOURCES = [
    Resource("bindings", {"GET": _all}),
    Resource("bindings/{vhost}", {"GET": _all}),
    Resource("bindings/{vhost}/e/{source}/{kind}/{name}", {"GET": _list_between, "POST": _bind}),
    Resource("bindings/{vhost}/e/{source}/{kind}/{name}/{key}", {"GET": _get_one, "DELETE": _unbind}),
    Resource("exchanges/{vhost}/{name}/bindings/source", {"GET": _from}),
    Resource("exchanges/{vhost}/{name}/bindings/destination", {"GET": _to_exchange}),
    Resource("queues/{vhost}/{name}/bindings", {"GET": _to_queue}),
]
