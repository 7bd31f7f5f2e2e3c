"""/api/queues: what there is and how full it is, declaring, deleting and purging. Messages are in `messages`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.broker.clients import node_name
from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.vhosts.definitions_json import json_table
from headrace.broker.vhosts.users import check_queue_access
from headrace.http.management import consumers
from headrace.http.management.call import CREATED, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import ApiError, bad_request, missing
from headrace.http.management.listing import columns, listed, only
from headrace.http.management.statistics import queue_stats

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.vhost import VirtualHost

_ACTIONS = ("sync", "cancel_sync")  # of mirrors, which a single node has not


def queue_named(call: Call, vhost: VirtualHost) -> AnyQueue:
    queue = vhost.queues.get(call["name"])
    if queue is None:
        raise missing()
    return queue


def _basic_row(queue: AnyQueue) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arguments": json_table(queue.arguments),
        "auto_delete": queue.auto_delete,
        "durable": queue.durable,
        "exclusive": queue.exclusive is not None,
        "name": queue.name,
        "node": node_name(),
        "state": "running",
        "type": queue.kind,
        "vhost": queue.vhost,
    }
    if queue.exclusive is not None:
        name = str(getattr(queue.exclusive, "name", ""))
        peer_host, _, peer_port = name.partition(" -> ")[0].rpartition(":")
        port = int(peer_port) if peer_port.isdecimal() else 0
        row["owner_pid_details"] = {"name": name, "peer_host": peer_host, "peer_port": port}
    if queue.kind != "classic":
        row |= {"leader": node_name(), "members": [node_name()], "online": [node_name()]}
    return row


def queue_row(call: Call, vhost: VirtualHost, queue: AnyQueue) -> dict[str, Any]:
    row = _basic_row(queue)
    policy, operator = vhost.policies.applied(queue.name, queue.kind)
    row["policy"] = policy.name if policy is not None else None
    if call.flag("disable_stats"):
        if call.flag("enable_queue_totals"):
            row |= {
                "messages": queue.message_count,
                "messages_ready": queue.ready_count,
                "messages_unacknowledged": queue.unacked_count,
            }
        return row
    ready_bytes = queue.ready_bytes()
    active = getattr(queue.consumers, "active", None)
    row |= {
        "consumers": queue.consumer_count,
        "effective_policy_definition": dict(vhost.policies.definition(queue.name, queue.kind)),
        "exclusive_consumer_tag": next((each.tag for each in queue.consumers if each.exclusive), None),
        "message_bytes": ready_bytes,
        "message_bytes_ready": ready_bytes,
        **_kept(queue, ready_bytes),
        **dict.fromkeys(("consumer_capacity", "consumer_utilisation"), _capacity(queue)),
        "operator_policy": operator.name if operator is not None else None,
        "single_active_consumer_tag": active.tag if active is not None else None,
        **queue_stats(call.rates, queue),
    }
    return row


def _kept(queue: AnyQueue, ready_bytes: int) -> dict[str, int]:
    """What is in files is not in memory, and the other way round."""
    if queue.durable:
        persistent, ready, unacked, size = queue.message_count, 0, 0, ready_bytes
    else:
        persistent, ready, unacked, size = 0, queue.ready_count, queue.unacked_count, 0
    return {
        "messages_persistent": persistent,
        "messages_ram": ready + unacked,
        "messages_ready_ram": ready,
        "messages_unacknowledged_ram": unacked,
        "message_bytes_persistent": size,
        "message_bytes_ram": ready_bytes - size,
    }


def _capacity(queue: AnyQueue) -> float:
    """Whether consumers take messages as they come, at this moment: 1, or 0 when something waits for them. RabbitMQ says in
    which part of the time they did."""
    consumers = list(queue.consumers)
    if not consumers:
        return 0
    waits = queue.kind != "stream" and queue.ready_count > 0 and not any(each.room() > 0 for each in consumers)
    return 0.0 if waits else 1.0


def _sorted(vhosts: Iterable[VirtualHost]) -> list[tuple[VirtualHost, AnyQueue]]:
    return [
        (vhost, queue)
        for vhost in sorted(vhosts, key=lambda vhost: vhost.name)
        for queue in sorted(vhost.queues.values(), key=lambda queue: queue.name)
    ]


async def _list(call: Call) -> object:
    return await listed(call.query, _sorted(call.vhosts()), lambda each: queue_row(call, *each), lambda each: each[1].name)


async def _get(call: Call) -> object:
    vhost = call.vhost()
    queue = queue_named(call, vhost)
    facts = [call.broker.clients.consumer(consumer) for consumer in queue.consumers]
    details = [consumers.consumer_row(call, each) for each in facts if each is not None]
    row = {**queue_row(call, vhost, queue), "consumer_details": details, "deliveries": [], "incoming": []}
    return only(row, columns(call.query))


async def _declare(call: Call) -> Answer:
    if call.broker.vhosts.get(call["vhost"]) is None:
        raise ApiError(404, "not_found", "vhost_not_found")
    vhost, name, body = call.vhost_to_use(), call["name"], call.body()
    there = name in vhost.queues
    arguments = body.table("arguments")
    always = arguments.get("x-queue-type") in ("quorum", "stream")
    vhost.declare_queue(
        name,
        durable=body.flag("durable", always or call.durable_unless_said),
        auto_delete=body.flag("auto_delete"),
        arguments=arguments,
        user=call.user,
    )
    await call.durable()
    return NO_CONTENT if there else CREATED


async def _delete(call: Call) -> Answer:
    vhost = call.vhost_to_use()
    name = queue_named(call, vhost).name
    check_queue_access(call.user, "configure", name, vhost.name)
    vhost.delete_queue(name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty"))
    await call.durable()
    return NO_CONTENT


async def _purge(call: Call) -> Answer:
    vhost = call.vhost_to_use()
    name = queue_named(call, vhost).name
    check_queue_access(call.user, "read", name, vhost.name)
    try:
        vhost.purge_queue(name)
    except AmqpRefusal as refusal:
        raise bad_request(refusal.text) from None
    return NO_CONTENT


async def _act(call: Call) -> Answer:
    queue_named(call, call.vhost_to_use())
    body = call.body()
    body.require("action")
    if body.text("action") not in _ACTIONS:
        raise bad_request(["unknown", body.text("action")])
    return NO_CONTENT


RESOURCES = [
    Resource("queues", {"GET": _list}),
    Resource("queues/detailed", {"GET": _list}),  # which is what the others are, too
    Resource("queues/{vhost}", {"GET": _list}),
    Resource("queues/{vhost}/{name}", {"GET": _get, "PUT": _declare, "DELETE": _delete}),
    Resource("queues/{vhost}/{name}/contents", {"DELETE": _purge}),
    Resource("queues/{vhost}/{name}/actions", {"POST": _act}),
]
