"""/api/feature-flags and /api/deprecated-features: what tools of RabbitMQ 4 ask before they use something.

All flags that mean something here are enabled, and stay so; so is the one of its newer metadata store, for declarations are as
durable. Of what RabbitMQ deprecates everything works but what it has removed itself.
"""

from __future__ import annotations

from typing import Any

from headrace.http.management.call import ADMINISTRATOR, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import bad_request
from headrace.http.management.listing import listed

_FLAGS = {
    "detailed_queues_endpoint": "Add a detailed queues HTTP API endpoint. Reduce number of metrics in the default endpoint.",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "khepri_db": "New Raft-based metadata store.",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "message_containers": "Message containers.",
    "quorum_queue": "Support queues of type `quorum`",
    "rabbitmq_4.0.0": "Allows rolling upgrades from 3.13.x to 4.0.x",
    "rabbitmq_4.1.0": "Allows rolling upgrades to 4.1.x",
    "stream_filtering": "Support for stream filtering.",
    "stream_queue": "Support queues of type `stream`",
    "stream_single_active_consumer": "Single active consumer for streams",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}

_ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"
_TRANSIENT = "transient_nonexcl_queues"
_DEPRECATED = {
    "classic_queue_mirroring": ("removed", "removal-of-classic-queue-mirroring"),
    "global_qos": ("permitted_by_default", "removal-of-global-qos"),
    "management_metrics_collection": ("permitted_by_default", "disable-metrics-delivery-via-the-management-api--ui"),
    "queue_master_locator": ("permitted_by_default", ""),
    "ram_node_type": ("removed", "removal-of-ram-nodes"),
    _TRANSIENT: ("permitted_by_default", "removal-of-transient-non-exclusive-queues"),
}


async def _flags(call: Call) -> object:
    common = {"doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "rabbit"}
    return await listed(call.query, _FLAGS.items(), lambda flag: {"name": flag[0], "desc": flag[1], **common})


async def _enable(call: Call) -> Answer:
    if call["name"] not in _FLAGS:
        raise bad_request("unsupported")
    return NO_CONTENT


def _deprecated_row(name: str) -> dict[str, Any]:
    phase, anchor = _DEPRECATED[name]
    return {
        "name": name,
        "desc": "",
        "deprecation_phase": phase,
        "doc_url": f"{_ANNOUNCED}#{anchor}" if anchor else "",
        "provided_by": "rabbit",
        "state": "denied" if phase == "removed" else "permitted",
    }


async def _deprecated(call: Call) -> object:
    return await listed(call.query, _DEPRECATED, _deprecated_row)


async def _used(call: Call) -> object:
    queues = (queue for vhost in call.broker.vhosts for queue in vhost.queues.values())
    used = [_TRANSIENT] if any(not queue.durable and queue.exclusive is None for queue in queues) else []
    return await listed(call.query, used, _deprecated_row)


RESOURCES = [
    Resource("feature-flags", {"GET": _flags}),
    Resource("feature-flags/{name}/enable", {"PUT": _enable}, ADMINISTRATOR),
    Resource("deprecated-features", {"GET": _deprecated}),
    Resource("deprecated-features/used", {"GET": _used}),
]
