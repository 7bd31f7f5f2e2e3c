"""/api/consumers: who consumes from which queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.clients import node_name
from headrace.broker.vhosts.definitions_json import json_table
from headrace.http.management.call import Call, Resource
from headrace.http.management.listing import listed

if TYPE_CHECKING:
    from headrace.broker.clients import ConsumerFacts


def consumer_row(call: Call, facts: ConsumerFacts) -> dict[str, Any]:
    active, status = _activity(call, facts)
    return {
        "arguments": json_table(facts.arguments),
        "ack_required": facts.ack_required,
        "active": active,
        "activity_status": status,
        "channel_details": {
            "connection_name": facts.connection,
            "name": f"{facts.connection} ({facts.channel})",
            "node": node_name(),
            "number": facts.channel,
            "peer_host": facts.peer_host,
            "peer_port": facts.peer_port,
            "user": facts.user,
        },
        "consumer_tag": facts.tag,
        "exclusive": facts.exclusive,
        "prefetch_count": facts.prefetch,
        "queue": {"name": facts.queue, "vhost": facts.vhost},
    }


def _activity(call: Call, facts: ConsumerFacts) -> tuple[bool, str]:
    """With a single active consumer the others wait."""
    vhost = call.broker.vhosts.get(facts.vhost)
    queue = vhost.queues.get(facts.queue) if vhost is not None else None
    if queue is None or not queue.settings.single_active_consumer:
        return True, "up"
    active = getattr(queue.consumers, "active", None) is facts.consumer
    return active, "single_active" if active else "waiting"


async def _list(call: Call) -> object:
    names = {vhost.name for vhost in call.vhosts()}
    found = [each for each in call.broker.clients.consumers() if each.vhost in names]
    if not call.monitors:
        found = [each for each in found if each.user == call.user.name]
    found.sort(key=lambda each: (each.vhost, each.queue, each.tag))
    return await listed(call.query, found, lambda each: consumer_row(call, each), lambda each: each.tag)


RESOURCES = [Resource("consumers", {"GET": _list}), Resource("consumers/{vhost}", {"GET": _list})]
