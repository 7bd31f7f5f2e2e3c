"""Spans of attempts (`broker.spans`): one for each, a child of the record's trace, which the request carries on.

Of the URL it has scheme, host and port alone: there are secrets in paths and queries of webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.spans import SYSTEM, Kind, messaging
from headrace.record.tracing import context_in

if TYPE_CHECKING:
    from headrace.broker.spans import Attribute, Span, Spans
    from headrace.record import Record
    from headrace.webhooks.attempt import Outcome
    from headrace.webhooks.outbound import Url
    from headrace.webhooks.request import Origin


def begin_attempt(spans: Spans, record: Record, origin: Origin, group: str, url: Url, number: int) -> Span | None:
    """None unless the record's trace is sampled."""
    context = context_in(record.headers)
    if context is None or not context.sampled:
        return None
    told: dict[str, Attribute] = {
        **messaging(SYSTEM, "deliver", "process", origin.topic),
        "messaging.destination.partition.id": str(origin.partition),
        "messaging.kafka.offset": origin.offset,
        "messaging.message.id": origin.message_id,
        "messaging.consumer.group.name": group,
        "headrace.route.name": origin.route,
        "http.request.method": "POST",
        "url.scheme": url.scheme,
        "server.address": url.host,
        "server.port": url.port,
    }
    if number > 1:
        told["http.request.resend_count"] = number - 1
    return spans.begin(context, f"deliver {origin.topic}", Kind.CLIENT, told)


def end_attempt(spans: Spans, span: Span, outcome: Outcome) -> None:
    told: dict[str, Attribute] = {}
    if outcome.status is not None:
        told["http.response.status_code"] = outcome.status
    if outcome.address is not None:
        told["network.peer.address"] = outcome.address
    error = None if outcome.is_success else str(outcome.status or outcome.kind or "error")
    spans.end(span, error, told, message="" if outcome.is_success else outcome.reason)
