"""/api/bindings, and the bindings of an exchange or a queue. Every queue is bound to the default exchange by its own name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote_plus

from headrace.broker.exchanges import Exchange
from headrace.broker.exchanges.binding import properties_key
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.users import check_exchange_access, check_queue_access
from headrace.http.management.call import DEFAULT_EXCHANGE, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import ApiError, missing, not_authorised
from headrace.http.management.exchanges import DEFAULT, exchange_named
from headrace.http.management.listing import listed
from headrace.http.management.queues import queue_named

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.vhost import VirtualHost

Row = dict[str, Any]


class Bound(NamedTuple):
    """A binding, in the order in which they are listed."""

    vhost: str
    source: str
    destination: str
    routing_key: str
    kind: str
    arguments: Mapping[str, object]

    @property
    def properties_key(self) -> str:
        return properties_key(self.routing_key, self.arguments)

    def row(self) -> Row:
        return {
            "source": self.source,
            "vhost": self.vhost,
            "destination": self.destination,
            "destination_type": self.kind,
            "routing_key": self.routing_key,
            "arguments": json_table(self.arguments),
            "properties_key": self.properties_key,
        }


def _bound(vhost: VirtualHost, bindings: Iterable[Any]) -> Iterator[Bound]:
    for each in bindings:
        ends = (each.source.name, each.destination.name)
        yield Bound(vhost.name, *ends, each.routing_key, each.destination_kind, each.arguments)


def _default(vhost: VirtualHost, queues: Iterable[AnyQueue]) -> Iterator[Bound]:
    return (Bound(vhost.name, "", queue.name, queue.name, "queue", {}) for queue in queues)


async def _listed(call: Call, bindings: Iterable[Bound]) -> object:
    return await listed(call.query, sorted(bindings, key=lambda each: each[:5]), Bound.row, lambda each: each.source)


async def _all(call: Call) -> object:
    found: list[Bound] = []
    for vhost in call.vhosts():
        found += _default(vhost, vhost.queues.values())
        found += _bound(vhost, vhost.router.bindings())
    return await _listed(call, found)


async def _from(call: Call) -> object:
    """Of an exchange that is not there: none."""
    vhost = call.vhost()
    exchange = DEFAULT if call["name"] in ("", "amq.default") else vhost.exchanges.get(call["name"])
    if exchange is DEFAULT:
        return await _listed(call, _default(vhost, vhost.queues.values()))
    return await _listed(call, _bound(vhost, vhost.router.bindings_from(exchange)) if exchange is not None else ())


async def _to_exchange(call: Call) -> object:
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call["name"])
    return await _listed(call, _bound(vhost, vhost.router.bindings_to(exchange)) if exchange is not None else ())


async def _to_queue(call: Call) -> object:
    vhost = call.vhost()
    queue = vhost.queues.get(call["name"])
    if queue is None:
        return await _listed(call, ())
    return await _listed(call, [*_default(vhost, [queue]), *_bound(vhost, vhost.router.bindings_to(queue))])


# --- between two ends


def _ends(call: Call) -> tuple[VirtualHost, Exchange, AnyQueue | Exchange]:
    vhost = call.vhost()
    source = exchange_named(vhost, call["source"])
    if call["kind"] == "e":
        return vhost, source, exchange_named(vhost, call["name"])
    if call["kind"] != "q":
        raise missing()
    return vhost, source, queue_named(call, vhost)


def _between(call: Call) -> list[Bound]:
    vhost, source, destination = _ends(call)
    if source is DEFAULT:
        return [] if isinstance(destination, Exchange) else list(_default(vhost, [destination]))
    return list(_bound(vhost, (each for each in vhost.router.bindings_to(destination) if each.source is source)))


async def _list_between(call: Call) -> object:
    """Between ends of which one is not there: none."""
    call.vhost()
    try:
        found = _between(call)
    except ApiError as error:
        if error.status != 404:
            raise
        found = []
    return await _listed(call, found)


def _check_not_default(source: str) -> None:
    if source == DEFAULT_EXCHANGE:
        raise not_authorised("Access refused.")


async def _bind(call: Call) -> Answer:
    vhost, body = call.vhost_to_use(), call.body()
    key = "" if body.get("routing_key") is None else body.text("routing_key")
    arguments = body.table("arguments")
    source, name = call["source"], call["name"]
    _check_not_default(source)
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


def _one(call: Call) -> Bound:
    """By its properties key, quoted once (as it stands in paths) or twice (as in the answer to a binding)."""
    between = _between(call)
    found = next((each for each in between if each.properties_key == call["key"]), None)
    if found is None:
        wanted = unquote_plus(call["key"])
        found = next((each for each in between if unquote_plus(each.properties_key) == wanted), None)
    if found is None:
        raise missing()
    return found


async def _get_one(call: Call) -> object:
    return _one(call).row()


async def _unbind(call: Call) -> Answer:
    call.vhost_to_use()
    vhost, source, destination = _ends(call)
    wanted = _one(call).properties_key
    _check_not_default(call["source"])
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
