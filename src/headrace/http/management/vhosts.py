"""/api/vhosts: virtual hosts, and who may do what in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.clients import node_name
from headrace.broker.vhosts.definitions_json import permission_entries, topic_permission_entries, vhost_entry
from headrace.broker.vhosts.users import Permissions
from headrace.http.management.call import ADMINISTRATOR, CREATED, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import ApiError, bad_request
from headrace.http.management.listing import columns, listed, only
from headrace.http.management.statistics import lengths_of, vhost_counters, with_details

if TYPE_CHECKING:
    from headrace.broker.vhosts.vhost import VirtualHost

MAX_NAME_BYTES = 255


class _Traffic:
    """What connections say, by virtual host."""

    def __init__(self, call: Call) -> None:
        self.published = call.broker.clients.published()
        self.octets: dict[str, tuple[int, int]] = {}
        for facts in call.broker.clients.connections():
            received, sent = self.octets.get(facts.vhost, (0, 0))
            self.octets[facts.vhost] = (received + facts.received_bytes, sent + facts.sent_bytes)


def _row(call: Call, vhost: VirtualHost, seen: _Traffic) -> dict[str, Any]:
    received, sent = seen.octets.get(vhost.name, (0, 0))
    counted = {"recv_oct": received, "send_oct": sent, **lengths_of(vhost.queues.values())}
    return {
        **vhost_entry(vhost),
        "tracing": vhost.tracing,
        "protected_from_deletion": vhost.protected,
        "cluster_state": {node_name(): "running"},
        **with_details(call.rates, ("vhost", vhost.name), counted),
        "message_stats": with_details(call.rates, ("vhost stats", vhost.name), vhost_counters([vhost], seen.published)),
    }


async def _list(call: Call) -> object:
    seen = _Traffic(call)
    found = sorted(call.vhosts(), key=lambda vhost: vhost.name)
    return await listed(call.query, found, lambda vhost: _row(call, vhost, seen), lambda vhost: vhost.name)


async def _get(call: Call) -> object:
    return only(_row(call, call.vhost(), _Traffic(call)), columns(call.query))


async def _put(call: Call) -> Answer:
    """Whoever makes one may do everything in it."""
    name, body, vhosts = call["vhost"], call.body(), call.broker.vhosts
    if not name or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise bad_request("vhost names have 1 to 255 bytes")
    there = vhosts.get(name)
    kind = body.get("default_queue_type", body.get("defaultqueuetype"))
    kind = None if kind in (None, "", "undefined") else str(kind)
    tracing = body.flag("tracing", there is not None and there.tracing)
    vhosts.create(name, description=body.text("description"), tags=tags_of(body.get("tags")), default_queue_type=kind)
    found = vhosts.get(name)
    assert found is not None
    found.tracing = tracing
    if there is None:
        vhosts.put_user(replace(call.user, permissions={**call.user.permissions, name: Permissions()}))
    await call.durable()
    return NO_CONTENT if there is not None else CREATED


def tags_of(value: object) -> tuple[str, ...]:
    """A list, or a text with commas."""
    tags = [] if value is None else value.split(",") if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_request("tags must be a list or a comma-separated string")
    return tuple(tag.strip() for tag in tags if tag.strip())


async def _delete(call: Call) -> Answer:
    vhost = call.vhost()
    if vhost.protected:
        text = f"Refusing to delete virtual host '{vhost.name}' because it is protected from deletion"
        raise ApiError(412, "precondition_failed", text)
    call.broker.vhosts.delete(vhost.name)
    for facts in call.broker.clients.connections():
        if facts.vhost == call["vhost"]:
            call.broker.clients.close(facts.name, f"vhost '{facts.vhost}' is deleted")
    await call.durable()
    return NO_CONTENT


async def _protect(call: Call) -> Answer:
    return await _set_protected(call, protected=True)


async def _unprotect(call: Call) -> Answer:
    return await _set_protected(call, protected=False)


async def _set_protected(call: Call, *, protected: bool) -> Answer:
    call.broker.vhosts.protect(call.vhost().name, protected)
    await call.durable()
    return NO_CONTENT


def _users_entries(call: Call, entries: Any) -> list[dict[str, object]]:
    vhost = call.vhost().name
    users = sorted(call.broker.vhosts.users, key=lambda user: user.name)
    return [entry for user in users for entry in entries(user) if entry["vhost"] == vhost]


async def _permissions(call: Call) -> object:
    return _users_entries(call, permission_entries)


async def _topic_permissions(call: Call) -> object:
    return _users_entries(call, topic_permission_entries)


async def _start(call: Call) -> Answer:
    """It runs always."""
    call.vhost()
    if call["node"] != node_name():
        raise bad_request(f"Request to node {call['node']} failed with nodedown")
    return NO_CONTENT


RESOURCES = [
    Resource("vhosts", {"GET": _list}),
    Resource("vhosts/{vhost}", {"GET": _get, "PUT": _put, "DELETE": _delete}, ADMINISTRATOR),
    Resource("vhosts/{vhost}/deletion/protection", {"POST": _protect, "DELETE": _unprotect}, ADMINISTRATOR),
    Resource("vhosts/{vhost}/permissions", {"GET": _permissions}, ADMINISTRATOR),
    Resource("vhosts/{vhost}/topic-permissions", {"GET": _topic_permissions}, ADMINISTRATOR),
    Resource("vhosts/{vhost}/start/{node}", {"POST": _start}, ADMINISTRATOR),
]
