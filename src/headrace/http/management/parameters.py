"""/api/parameters and /api/global-parameters: values that are kept for whoever asks. Only limits of virtual hosts do something.

Of components that plugins of RabbitMQ bring what these can't do without is asked for, so that whoever writes such a definition
learns of a mistake here as well. Operator policies are parameters too, of the component `operator_policy`: they are shown, and
set where policies are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.broker.exchanges.values import printed
from headrace.broker.vhosts.definitions_json import OPERATOR_POLICY, policy_entry
from headrace.broker.vhosts.hosts import LIMITS
from headrace.http.management.call import ADMINISTRATOR, CREATED, NO_CONTENT, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing
from headrace.http.management.limits import check_vhost_limits
from headrace.http.management.listing import listed

_CLUSTER_ID = "internal_cluster_id"
_REQUIRED = {"federation-upstream": ("uri",), "shovel": ("src-uri", "dest-uri")}


def _rows(call: Call) -> list[dict[str, Any]]:
    visible = {vhost.name: vhost for vhost in call.vhosts()}
    rows = [
        {"value": value, "vhost": vhost, "component": component, "name": name}
        for (component, vhost, name), value in call.broker.vhosts.parameters.items()
        if vhost in visible
    ]
    for vhost in visible.values():
        for policy in vhost.policies.all():
            if policy.operator:
                value = {key: part for key, part in policy_entry(policy).items() if key not in ("vhost", "name")}
                rows.append({"value": value, "vhost": vhost.name, "component": OPERATOR_POLICY, "name": policy.name})
    return sorted(
        (row for row in rows if call.parts.get("component", row["component"]) == row["component"]),
        key=lambda row: (row["component"], row["vhost"], row["name"]),
    )


async def _list(call: Call) -> object:
    return await listed(call.query, _rows(call), lambda row: row, lambda row: str(row["name"]))


async def _get(call: Call) -> object:
    found = next((row for row in _rows(call) if row["name"] == call["name"]), None)
    if found is None:
        raise missing()
    return found


async def _put(call: Call) -> Answer:
    vhost, body = call.vhost_to_write(), call.body()
    body.require("value")
    if call["component"] == OPERATOR_POLICY:
        raise bad_request("operator policies are set at /api/operator-policies")
    try:
        _check(call["component"], call["name"], body.get("value"))
    except ValueError as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None
    return await _set(call, call["component"], vhost.name, body.get("value"))


def _check(component: str, name: str, value: object) -> None:
    if component == LIMITS or component in _REQUIRED:
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} not a list {printed(value)}")
        if component == LIMITS:
            check_vhost_limits(value)
        for key in _REQUIRED.get(component, ()):
            if key not in value:
                raise ValueError(f'Key "{key}" not found in {name}')
            if not isinstance(value[key], str | list):
                raise ValueError(f"{key} should be list, actually was {printed(value[key])}")


async def _delete(call: Call) -> Answer:
    return await _unset(call, call["component"], call.vhost().name)


async def _set(call: Call, component: str, vhost: str | None, value: object) -> Answer:
    there = (component, vhost, call["name"]) in call.broker.vhosts.parameters
    call.broker.vhosts.put_parameter(component, vhost, call["name"], value)
    await call.durable()
    return NO_CONTENT if there else CREATED


async def _unset(call: Call, component: str, vhost: str | None) -> Answer:
    if (component, vhost, call["name"]) not in call.broker.vhosts.parameters:
        raise missing()
    call.broker.vhosts.clear_parameter(component, vhost, call["name"])
    await call.durable()
    return NO_CONTENT


# --- global ones


def _global(call: Call) -> list[dict[str, Any]]:
    """The id of the cluster is there from the beginning, unless definitions brought one along."""
    found: dict[str, object] = {_CLUSTER_ID: f"rabbitmq-cluster-id-{call.broker.cluster_id}"}
    found |= {name: value for (_, vhost, name), value in call.broker.vhosts.parameters.items() if vhost is None}
    return [{"name": name, "value": value} for name, value in sorted(found.items())]


async def _list_global(call: Call) -> object:
    return await listed(call.query, _global(call), lambda row: row, lambda row: str(row["name"]))


async def _get_global(call: Call) -> object:
    found = next((row for row in _global(call) if row["name"] == call["name"]), None)
    if found is None:
        raise missing()
    return found


async def _put_global(call: Call) -> Answer:
    body = call.body()
    body.require("value")
    return await _set(call, "", None, body.get("value"))


async def _delete_global(call: Call) -> Answer:
    return await _unset(call, "", None)


_ONE = {"GET": _get, "PUT": _put, "DELETE": _delete}
_ONE_GLOBAL = {"GET": _get_global, "PUT": _put_global, "DELETE": _delete_global}

RESOURCES = [
    Resource("parameters", {"GET": _list}, POLICYMAKER),
    Resource("parameters/{component}", {"GET": _list}, POLICYMAKER),
    Resource("parameters/{component}/{vhost}", {"GET": _list}, POLICYMAKER),
    Resource("parameters/{component}/{vhost}/{name}", _ONE, POLICYMAKER),
    Resource("global-parameters", {"GET": _list_global}, POLICYMAKER),
    Resource("global-parameters/{name}", _ONE_GLOBAL, POLICYMAKER, ADMINISTRATOR),
]
