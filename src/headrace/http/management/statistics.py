"""Counters of queues and virtual hosts under RabbitMQ's names.

`deliver` and `deliver_get` count everything that was handed out, to consumers and to basic.get alike. `publish` of a virtual
host counts messages, of a queue what came to it. All count from the start of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.http.management.rates import Rates

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue
    from headrace.broker.vhosts.vhost import VirtualHost


def queue_stats(rates: Rates, queue: AnyQueue) -> dict[str, Any]:
    counters = {
        "ack": queue.acknowledged,
        "deliver": queue.delivered,
        "deliver_get": queue.delivered,
        "publish": queue.published,
        "redeliver": queue.redelivered,
    }
    key = ("queue", queue.definition.queue_id)
    lengths = rates.counted(("lengths", queue.definition.queue_id), lengths_of([queue]))
    return {**lengths, "message_stats": rates.counted(key, counters)}


def lengths_of(queues: Iterable[AnyQueue]) -> dict[str, int]:
    ready = unacked = 0
    for queue in queues:
        ready += queue.ready_count
        unacked += 0 if queue.kind == "stream" else queue.unacked_count
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def vhost_counters(vhosts: Iterable[VirtualHost], published: Mapping[str, int]) -> dict[str, int]:
    """`published` is what came through channels that are open."""
    total = dict.fromkeys(("ack", "deliver", "deliver_get", "drop_unroutable", "publish", "redeliver"), 0)
    for vhost in vhosts:
        gone = vhost.counted
        queues = vhost.queues.values()
        delivered = gone.delivered + sum(queue.delivered for queue in queues)
        total["ack"] += gone.acknowledged + sum(queue.acknowledged for queue in queues)
        total["deliver"] += delivered
        total["deliver_get"] += delivered
        total["drop_unroutable"] += vhost.unroutable
        total["publish"] += gone.published + published.get(vhost.name, 0)
        total["redeliver"] += gone.redelivered + sum(queue.redelivered for queue in queues)
    return total


def with_details(rates: Rates, key: object, counters: Mapping[str, int]) -> dict[str, object]:
    return rates.counted(("total", key), counters)
