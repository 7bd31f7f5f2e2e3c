"""What /metrics tells about routes: what each does and has done. Their lag is that of their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from headrace.broker import Broker

_COUNTERS = {
    "delivered": "Records that a route delivered.",
    "dead_lettered": "Records that it could not deliver, and wrote to its dead-letter topic.",
    "skipped": "Records that it could not deliver, and was told to skip.",
    "lost": "Records that retention took before they were delivered.",
}


def collect_routes(broker: Broker) -> list[Metric]:
    state = GaugeMetricFamily("headrace_route_state", "1 for the state that a route is in.", labels=["route", "state"])
    counters = {
        name: CounterMetricFamily(f"headrace_route_{name}_total", text, labels=["route"]) for name, text in _COUNTERS.items()
    }
    for route in broker.routes:
        state.add_metric([route.definition.name, str(route.state)], 1)
        for name, family in counters.items():
            family.add_metric([route.definition.name], getattr(route.counts, name))
    return [state, *counters.values()]
