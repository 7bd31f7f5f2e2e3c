"""/api/overview: the numbers that everybody looks at first; and small resources that tools ask for out of habit."""

from __future__ import annotations

import platform
from typing import Any

from headrace import __version__
from headrace.broker.clients import RABBITMQ_VERSION, node_name
from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.listing import columns, only
from headrace.http.management.nodes import EXCHANGE_TYPES, cluster_tags, contexts
from headrace.http.management.statistics import lengths_of, vhost_counters, with_details


def listeners(call: Call) -> list[dict[str, Any]]:
    return [
        {"node": node_name(), "protocol": protocol, "ip_address": host, "port": port, "socket_opts": []}
        for protocol, (host, port) in sorted(call.broker.clients.listeners.items())
    ]


async def _overview(call: Call) -> object:
    clients, vhosts = call.broker.clients, call.vhosts()
    connections = [each for each in clients.connections() if call.monitors or each.user == call.user.name]
    lengths = lengths_of(queue for vhost in vhosts for queue in vhost.queues.values())
    who = "all" if call.monitors else call.user.name
    row: dict[str, Any] = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [], "basic": [], "detailed": []},
        "exchange_types": EXCHANGE_TYPES,
        "product_version": __version__,
        "product_name": "Headrace",
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": call.broker.vhosts.cluster_name,
        "cluster_tags": cluster_tags(call.broker),
        "node_tags": {},
        "erlang_version": "",
        "erlang_full_version": f"none: Python {platform.python_version()}",
        "release_series_support_status": "supported",
        "default_queue_type": "classic",
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": with_details(call.rates, ("overview", who), vhost_counters(vhosts, clients.published())),
        "churn_rates": with_details(call.rates, ("churn", who), _churn(call)),
        "queue_totals": with_details(call.rates, ("lengths", who), lengths),
        "object_totals": {
            "channels": sum(each.channels for each in connections),
            "connections": len(connections),
            "consumers": sum(queue.consumer_count for vhost in vhosts for queue in vhost.queues.values()),
            "exchanges": sum(len(vhost.exchanges) + 1 for vhost in vhosts),
            "queues": sum(len(vhost.queues) for vhost in vhosts),
        },
        "statistics_db_event_queue": 0,
        "node": node_name(),
        "listeners": listeners(call) if call.monitors else [],
        "contexts": contexts(call.broker) if call.monitors else [],
    }
    return only(row, columns(call.query))


def _churn(call: Call) -> dict[str, int]:
    traffic = call.broker.traffic.get("amqp")
    created = traffic.connections_total if traffic is not None else 0
    return {"connection_created": created, "connection_closed": created - (traffic.connections if traffic is not None else 0)}


async def _auth(call: Call) -> object:
    return {"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


async def _extensions(call: Call) -> object:
    """What RabbitMQ's web page loads: tools take an empty list for a plugin that is not there."""
    return [{"javascript": "dispatcher.js"}]


async def _accepted(call: Call) -> Answer:
    return NO_CONTENT


async def _version(call: Call) -> object:
    return RABBITMQ_VERSION


RESOURCES = [
    Resource("overview", {"GET": _overview}),
    Resource("extensions", {"GET": _extensions}),
    Resource("auth", {"GET": _auth}, public=True),
    Resource("version", {"GET": _version}),
    Resource("rebalance/queues", {"POST": _accepted}, ADMINISTRATOR),
]
