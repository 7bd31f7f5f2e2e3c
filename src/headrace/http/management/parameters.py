"""/api/parameters and /api/global-parameters: values that are kept for whoever asks; none has an effect here.

Operator policies are parameters too, of the component `operator_policy`: they are shown, and set where policies are.
"""

from __future__ import annotations

from typing import Any

from headrace.broker.vhosts.definitions_json import OPERATOR_POLICY, policy_entry
from headrace.http.management.call import ADMINISTRATOR, CREATED, NO_CONTENT, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing
from headrace.http.management.listing import listed

CLUSTER_NAME = "cluster_name"


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
    vhost, body = call.vhost(), call.body()
    body.require("value")
    if call["component"] == OPERATOR_POLICY:
        raise bad_request("operator policies are set at /api/operator-policies")
    return await _set(call, call["component"], vhost.name, body.get("value"))


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
    parameters = call.broker.vhosts.parameters.items()
    return [{"name": name, "value": value} for (_, vhost, name), value in parameters if vhost is None]


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
