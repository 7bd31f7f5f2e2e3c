"""Spans of what a route hands on (`broker.spans`): one for each record whose trace is sampled, from when the destination gets
it until it has taken it. The record goes on with that span as its trace; what others have stays as it is.

What must wait is handed on again later, and has a span when it was taken. Bound: one portion of a page (`reading`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.spans import SYSTEM, Kind, messaging
from headrace.record.tracing import context_in, in_context

if TYPE_CHECKING:
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.destination import Delivery, Destination
    from headrace.broker.spans import Attribute, Span, Spans
    from headrace.record import Record


class Hops:
    """Of one route."""

    def __init__(self, spans: Spans, definition: RouteDefinition) -> None:
        self._spans = spans
        self._name = f"route {definition.topic}"
        self._told: dict[str, Attribute] = {
            **messaging(SYSTEM, "route", "process", definition.topic),
            "messaging.consumer.group.name": definition.group_id,
            "headrace.route.name": definition.name,
            "headrace.route.destination": definition.target.label,
        }

    async def deliver(self, destination: Destination, records: Sequence[Record], partition: int) -> Delivery:
        begun: dict[int, Span] = {}  # by place
        for place, record in enumerate(records):
            if record.headers and (span := self._begin(record, partition)) is not None:
                begun[place] = span
        if not begun:
            return await destination.deliver(records, partition)
        handed_on = list(records)
        for place, span in begun.items():
            record = records[place]
            handed_on[place] = record._replace(headers=in_context(record.headers, span.context))
        delivery = await destination.deliver(handed_on, partition)
        failed = {failure.place: failure.reason for failure in delivery.failures}
        for place, span in begun.items():
            if place < delivery.done:
                reason = failed.get(place)
                self._spans.end(span, None if reason is None else "not_delivered", message=reason or "")
        return delivery

    def _begin(self, record: Record, partition: int) -> Span | None:
        context = context_in(record.headers)
        if context is None or not context.sampled:
            return None
        place: dict[str, Attribute] = {
            "messaging.destination.partition.id": str(partition),
            "messaging.kafka.offset": record.offset,
        }
        return self._spans.begin(context, self._name, Kind.CONSUMER, {**self._told, **place})
