"""/api/vhost-limits: how many queues and connections a virtual host may have. Limits of users there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.broker.exchanges.values import printed
from headrace.broker.vhosts.hosts import LIMITS
from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import bad_request

_NAME = "limits"
_KINDS = ("max-connections", "max-queues")


def _limits(call: Call, vhost: str) -> dict[str, Any]:
    said = call.broker.vhosts.parameters.get((LIMITS, vhost, _NAME), {})
    return dict(said) if isinstance(said, Mapping) else {}


async def _list(call: Call) -> object:
    found = ((vhost.name, _limits(call, vhost.name)) for vhost in call.vhosts())
    return [{"vhost": name, "value": limits} for name, limits in sorted(found) if limits]


def _kind(call: Call) -> str:
    if call["kind"] not in _KINDS:
        value = printed(call.body().get("value"))
        raise bad_request(f"Validation failed\n\nUnrecognised terms [{{{printed(call['kind'])},{value}}}] in limits\n")
    return call["kind"]


async def _put(call: Call) -> Answer:
    vhost, kind, body = call.vhost().name, _kind(call), call.body()
    body.require("value")
    return await _set(call, vhost, {**_limits(call, vhost), kind: body.number("value")})


async def _delete(call: Call) -> Answer:
    vhost, kind = call.vhost().name, _kind(call)
    return await _set(call, vhost, {name: value for name, value in _limits(call, vhost).items() if name != kind})


async def _set(call: Call, vhost: str, limits: dict[str, Any]) -> Answer:
    call.broker.vhosts.put_parameter(LIMITS, vhost, _NAME, limits)
    await call.durable()
    return NO_CONTENT


async def _none(call: Call) -> object:
    return []


RESOURCES = [
    Resource("vhost-limits", {"GET": _list}),
    Resource("vhost-limits/{vhost}", {"GET": _list}),
    Resource("vhost-limits/{vhost}/{kind}", {"PUT": _put, "DELETE": _delete}, ADMINISTRATOR),
    Resource("user-limits", {"GET": _none}),
    Resource("user-limits/{user}", {"GET": _none}),
]
