"""What /metrics tells about routes that send webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.broker.routes.sending import Measures

if TYPE_CHECKING:
    from headrace.broker import Broker

RESULTS = ("delivered", "failed", "given-up", "gone")
_ROUTE = ["route"]


def collect_webhooks(broker: Broker) -> list[Metric]:
    attempts = CounterMetricFamily("headrace_webhook_attempts_total", "Attempts to deliver.", labels=["route", "result"])
    delay = SummaryMetricFamily("headrace_webhook_delay_seconds", "From writing an event to delivering it.", labels=_ROUTE)
    request = SummaryMetricFamily("headrace_webhook_request_seconds", "How long attempts took.", labels=_ROUTE)
    pending = GaugeMetricFamily("headrace_webhook_pending", "Events that wait for another attempt.", labels=_ROUTE)
    in_flight = GaugeMetricFamily("headrace_webhook_in_flight", "Requests under way.", labels=_ROUTE)
    breaker = GaugeMetricFamily("headrace_webhook_breaker_open", "1 while nothing is sent: it fails.", labels=_ROUTE)
    for route in broker.routes:
        measure = getattr(route.run, "measures", None)
        if measure is None:
            continue
        name = [route.definition.name]
        measures: Measures = measure()
        for result in RESULTS:
            attempts.add_metric([*name, result], measures.attempts[result])
        sent = sum(measures.attempts[result] for result in ("delivered", "failed", "given-up"))
        delay.add_metric(name, measures.attempts["delivered"], measures.delay_s)
        request.add_metric(name, sent, measures.request_s)
        pending.add_metric(name, measures.pending)
        in_flight.add_metric(name, measures.in_flight)
        breaker.add_metric(name, int(measures.is_open))
    return [attempts, delay, request, pending, in_flight, breaker]
