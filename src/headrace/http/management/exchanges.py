"""/api/exchanges: what there is, declaring and deleting. Publishing through one is in `messages`, bindings in `bindings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.exchanges import Exchange
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.users import check_exchange_access
from headrace.http.management.call import CREATED, DEFAULT_EXCHANGE, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import ApiError, missing, not_authorised
from headrace.http.management.listing import columns, listed, only

if TYPE_CHECKING:
    from headrace.broker.vhosts.vhost import VirtualHost

DEFAULT = Exchange("", "direct")


def exchange_named(vhost: VirtualHost, name: str) -> Exchange:
    """As paths name it."""
    found = DEFAULT if name in ("", DEFAULT_EXCHANGE) else vhost.exchanges.get(name)
    if found is None:
        raise missing()
    return found


def exchange_row(vhost: VirtualHost, exchange: Exchange) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arguments": json_table(exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name,
        "type": exchange.kind,
        "vhost": vhost.name,
    }
    policy, _ = vhost.policies.applied(exchange.name, "exchange")
    if policy is not None:
        row["policy"] = policy.name
    return row


async def _list(call: Call) -> object:
    found = [
        (vhost, exchange)
        for vhost in sorted(call.vhosts(), key=lambda vhost: vhost.name)
        for exchange in [DEFAULT, *sorted(vhost.exchanges.values(), key=lambda each: each.name)]
    ]
    return await listed(call.query, found, lambda each: exchange_row(*each), lambda each: each[1].name)


async def _get(call: Call) -> object:
    vhost = call.vhost()
    row = exchange_row(vhost, exchange_named(vhost, call["name"]))
    return only({**row, "incoming": [], "outgoing": []}, columns(call.query))


async def _declare(call: Call) -> Answer:
    if call.broker.vhosts.get(call["vhost"]) is None:
        raise ApiError(404, "not_found", "vhost_not_found")
    vhost, name, body = call.vhost_to_use(), call["name"], call.body()
    there = name in vhost.exchanges
    vhost.declare_exchange(
        name,
        body.text("type", "direct"),
        durable=body.flag("durable", call.durable_unless_said),
        auto_delete=body.flag("auto_delete"),
        internal=body.flag("internal"),
        arguments=body.table("arguments"),
        user=call.user,
    )
    await call.durable()
    return NO_CONTENT if there else CREATED


async def _delete(call: Call) -> Answer:
    vhost = call.vhost_to_use()
    exchange = exchange_named(vhost, call["name"])
    if exchange is DEFAULT:
        raise not_authorised("Access refused.")
    check_exchange_access(call.user, "configure", exchange.name, vhost.name)
    vhost.delete_exchange(exchange.name, if_unused=call.flag("if-unused"))
    await call.durable()
    return NO_CONTENT


RESOURCES = [
    Resource("exchanges", {"GET": _list}),
    Resource("exchanges/{vhost}", {"GET": _list}),
    Resource("exchanges/{vhost}/{name}", {"GET": _get, "PUT": _declare, "DELETE": _delete}),
]
