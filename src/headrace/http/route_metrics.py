"""What /metrics tells about routes: what each does and has done. The lag of those that read a topic is that of their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from headrace.broker import Broker

_COUNTERS = {
    "delivered": "Records that a route delivered, or brought into its topic.",
    "replayed": "Records of a period that it delivered once more.",
    "filtered": "Records that its filter left out.",
    "dead_lettered": "Records that it could not deliver, and wrote to its dead-letter topic.",
    "skipped": "Records that it could not deliver, and was told to skip.",
    "lost": "Records that retention took before they were delivered.",
}


def collect_routes(broker: Broker) -> list[Metric]:
    state = GaugeMetricFamily("headrace_route_state", "1 for the state that a route is in.", labels=["route", "state"])
    info = GaugeMetricFamily("headrace_route_info", "1, with the types of its ends.", labels=["route", "source", "destination"])
    left = GaugeMetricFamily("headrace_route_replay_left", "Records of a period that are still to deliver.", labels=["route"])
    counters = {
        name: CounterMetricFamily(f"headrace_route_{name}_total", text, labels=["route"]) for name, text in _COUNTERS.items()
    }
    for route in broker.routes:
        name, definition = route.definition.name, route.definition
        state.add_metric([name, str(route.state)], 1)
        info.add_metric([name, definition.source.kind, definition.target.kind], 1)
        if route.replay is not None and route.topic is not None:
            left.add_metric([name], route.replay.left(route.topic))
        for counter, family in counters.items():
            family.add_metric([name], getattr(route.counts, counter))
    return [state, info, left, *counters.values()]
