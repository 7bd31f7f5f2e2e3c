"""Spans of what AMQP clients publish (`broker.spans`): one for a run of messages whose trace is sampled, from when it was read
until the queues have it. The messages stay as they came. All messages of a run have the same headers, so nothing is looked into
that was not decoded for routing. The confirm, which may wait for the disk, is not a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.record.tracing import TRACEPARENT, TRACESTATE, Context, context_in

if TYPE_CHECKING:
    from headrace.broker.queues.run import Run
    from headrace.broker.spans import Attribute, Span, Spans
    from headrace.broker.vhosts.publishing import Published


def begin_publish(spans: Spans, run: Run, vhost: str) -> Span | None:
    context = _context(run.headers)
    if context is None or not context.sampled:
        return None
    told: dict[str, Attribute] = {
        "messaging.rabbitmq.destination.routing_key": run.routing_key,
        "messaging.batch.message_count": run.count,
        "headrace.vhost": vhost,
    }
    return spans.begin_publish(context, "rabbitmq", run.exchange or run.routing_key, told)


def end_publish(spans: Spans, span: Span, published: Published | None) -> None:
    """None: it is in a transaction, or its messages went their own ways."""
    if published is None:
        spans.end(span)
    elif published.rejected:
        spans.end(span, "rejected", message="a queue refused it")
    else:
        spans.end(span, None, {"headrace.routed": published.routed})


def _context(headers: Mapping[str, object]) -> Context | None:
    if TRACEPARENT not in headers:
        return None
    found = []
    for name in (TRACEPARENT, TRACESTATE):
        value = headers.get(name)
        if isinstance(value, str):
            value = value.encode("utf-8", "replace")
        if isinstance(value, bytes):
            found.append((name, value))
    return context_in(found)
