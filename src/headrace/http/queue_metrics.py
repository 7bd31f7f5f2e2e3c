"""What /metrics tells about queues: how full each is and what went through it, by virtual host and queue.

With more than `MAX_QUEUES` queues the numbers are those of whole virtual hosts, without a label `queue`: a time series for each
of a hundred thousand queues helps nobody, and no Prometheus would thank us for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.vhosts.vhost import VirtualHost
    from headrace.short_turns import ShortTurns

MAX_QUEUES = 1000

_GAUGES = {
    "messages_ready": "Messages that wait for a consumer.",
    "messages_unacknowledged": "Messages that consumers have and have not acknowledged.",
    "ready_bytes": "About the bodies of what is ready.",
    "consumers": "Who consumes from it.",
}
_COUNTERS = {
    "published": "Messages that came to it.",
    "delivered": "Messages that were handed out.",
    "redelivered": "Of those, messages that had been handed out before.",
    "acknowledged": "Messages that were acknowledged.",
    "dropped": "Messages that were dropped: too old, too many or rejected, and without a dead letter exchange.",
}


async def collect_queues(broker: Broker, turns: ShortTurns) -> list[Metric]:
    labels = ["vhost", "queue"]
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
    for name, text in _GAUGES.items():
        families[name] = GaugeMetricFamily(f"headrace_queue_{name}", text, labels=labels)
    for name, text in _COUNTERS.items():
        families[name] = CounterMetricFamily(f"headrace_queue_{name}_total", text, labels=labels)
    vhosts = list(broker.vhosts)
    each_queue = sum(len(vhost.queues) for vhost in vhosts) <= MAX_QUEUES
    for vhost in vhosts:
        whole = dict.fromkeys(families, 0)
        for queue in tuple(vhost.queues.values()):
            values = (
                queue.ready_count,
                queue.unacked_count,
                queue.ready_bytes(),
                queue.consumer_count,
                queue.published,
                queue.delivered,
                queue.redelivered,
                queue.acknowledged,
                queue.dropped,
            )
            for (name, family), value in zip(families.items(), values, strict=True):
                whole[name] += value
                if each_queue:
                    family.add_metric([vhost.name, queue.name], value)
            if turns.over:
                await turns.rest()
        if not each_queue:
            _add_gone(whole, vhost)
            for name, family in families.items():
                family.add_metric([vhost.name, ""], whole[name])
    return [*_totals(broker, vhosts), *families.values()]


def _add_gone(whole: dict[str, int], vhost: VirtualHost) -> None:
    """A counter must not shrink when a queue is deleted."""
    gone = vhost.counted
    whole["published"] += gone.arrived
    whole["delivered"] += gone.delivered
    whole["redelivered"] += gone.redelivered
    whole["acknowledged"] += gone.acknowledged
    whole["dropped"] += gone.dropped


def _totals(broker: Broker, vhosts: list[VirtualHost]) -> list[Metric]:
    label = ["vhost"]
    queues = GaugeMetricFamily("headrace_queues", "Queues.", labels=label)
    exchanges = GaugeMetricFamily("headrace_exchanges", "Exchanges.", labels=label)
    bindings = GaugeMetricFamily("headrace_bindings", "Bindings, without those of the default exchange.", labels=label)
    published = CounterMetricFamily("headrace_vhost_published_total", "Messages that clients published.", labels=label)
    unroutable = CounterMetricFamily("headrace_vhost_unroutable_total", "Of those, messages for no queue.", labels=label)
    through_channels = broker.clients.published()
    for vhost in vhosts:
        queues.add_metric([vhost.name], len(vhost.queues))
        exchanges.add_metric([vhost.name], len(vhost.exchanges))
        bindings.add_metric([vhost.name], vhost.bindings.count)
        published.add_metric([vhost.name], vhost.counted.published + through_channels[vhost.name])
        unroutable.add_metric([vhost.name], vhost.unroutable)
    blocked = GaugeMetricFamily("headrace_publishers_blocked", "1 while AMQP publishers have to wait.")
    blocked.add_metric([], bool(broker.clients.alarm))
    return [queues, exchanges, bindings, published, unroutable, blocked]
