"""What /metrics tells about spans on their way to the collector; without one these have no samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from headrace.broker.spans import Spans


def collect_spans(spans: Spans | None) -> list[Metric]:
    waiting = GaugeMetricFamily("headrace_spans_waiting", "Spans that wait to be sent.")
    exported = CounterMetricFamily("headrace_spans_exported_total", "Spans that the collector took.")
    dropped = CounterMetricFamily("headrace_spans_dropped_total", "Spans that it did not get.", labels=["reason"])
    up = GaugeMetricFamily("headrace_spans_collector_up", "1 while the collector takes spans, 0 while it does not.")
    if spans is not None:
        waiting.add_metric([], len(spans))
        exported.add_metric([], spans.exported)
        for reason, count in spans.dropped.items():
            dropped.add_metric([reason], count)
        if spans.collector_up is not None:
            up.add_metric([], spans.collector_up)
    return [waiting, exported, dropped, up]
