"""The destination that is an exchange: each record is published as the message that `record.amqp.mapping` makes of it.

It is published as a client would publish it: CC and BCC, delays and alternate exchanges have their effect, and consumers see
the exchange and the routing key that it was routed by. A routing key that takes the place of a record's key does not lose that:
it goes into the header `x-opt-partition-key`, as a key does that can't be a routing key.

    no such exchange or virtual host, a queue that refuses        wait, and try again
    no queue takes it, and the route says `mandatory`             failure
    a message that no client could publish (an internal exchange, an expiration that is no number, …)   failure

A message never goes into the stream queue that is the route's own topic: it would come round for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.run import Run
from headrace.broker.queues.settings import Overflow
from headrace.broker.routes.definition import ExchangeTarget
from headrace.broker.routes.destination import Delivery, Failure
from headrace.broker.vhosts.names import exchange_text
from headrace.broker.vhosts.publishing import Published
from headrace.record import Record
from headrace.record.amqp.mapping import KEY, event_to_message
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import headers, with_headers

if TYPE_CHECKING:
    from headrace.broker.vhosts.vhost import VirtualHost

FindVhost = Callable[[str], "VirtualHost | None"]

MAX_PROPERTIES_BYTES = 120 * 1024  # a header frame can't be split
OMITTED = "x-opt-kafka-headers-omitted"
_NOT_FOUND = 404


class ExchangeDestination:
    def __init__(self, target: ExchangeTarget, topic: str, find_vhost: FindVhost) -> None:
        self._target = target
        self._topic = topic
        self._find_vhost = find_vhost

    async def deliver(self, records: Sequence[Record]) -> Delivery:
        target = self._target
        vhost = self._find_vhost(target.vhost)
        if vhost is None:
            return Delivery(0, wait=f"there is no vhost '{target.vhost}'")
        if target.exchange and target.exchange not in vhost.exchanges:
            return Delivery(0, wait=f"there is no {exchange_text(target.exchange, target.vhost)}")
        each = bool(target.exchange) and vhost.router.sees_each_message(target.exchange)
        messages = [self._message(record) for record in records]
        failures: list[Failure] = []
        place = 0
        while place < len(messages):
            end = place + 1 if each else _end_of_run(messages, place)
            run = Run.of(messages[place:end])
            try:
                published = self._publish(vhost, run)
            except AmqpRefusal as refusal:
                if refusal.code == _NOT_FOUND:
                    return Delivery(place, failures, wait=refusal.text)
                failures += [Failure(each_place, refusal.text) for each_place in range(place, end)]
                place = end
                continue
            if published.rejected and not _dead_lettered(vhost, run, target.exchange):
                done = place + min(published.refused, default=0)
                return Delivery(done, failures, wait=f"a queue of {exchange_text(target.exchange, target.vhost)} takes no more")
            if not published.routed and target.mandatory:
                failures += [Failure(each_place, "no queue takes it: NO_ROUTE") for each_place in range(place, end)]
            place = end
        return Delivery(place, failures)

    def _message(self, record: Record) -> Message:
        _, routing_key, raw, body = event_to_message(record)
        if len(raw) > MAX_PROPERTIES_BYTES:
            raw = with_headers(raw, {OMITTED: True})
        fixed = self._target.routing_key
        if fixed is not None and fixed != routing_key:
            if record.key is not None:
                raw = with_headers(raw, {**headers(raw), KEY: record.key})
            routing_key = fixed
        return Message(self._target.exchange, routing_key, raw, body)

    def _publish(self, vhost: VirtualHost, run: Run) -> Published:
        own = vhost.queues.get(self._topic.removeprefix(f"{vhost.name}."))
        if own is None or own.kind != "stream" or own.topic != self._topic:
            return vhost.publish(run)
        if own not in _queues(vhost, run, self._target.exchange):
            return vhost.publish(run)
        return vhost.republish(run, self._target.exchange, skip=lambda name: name == own.name)


def _queues(vhost: VirtualHost, run: Run, exchange: str) -> tuple[object, ...]:
    """Where a run would go."""
    return vhost.router.route(exchange, run.routing_key, lambda: run.headers, lambda: run.properties)


def _dead_lettered(vhost: VirtualHost, run: Run, exchange: str) -> bool:
    """Whether the queues that may have refused a message sent it to their dead-letter exchange: it is where it shall be."""
    refusing = [queue for queue in _queues(vhost, run, exchange) if getattr(queue, "one_by_one", False)]
    return bool(refusing) and all(
        queue.settings.overflow is Overflow.REJECT_PUBLISH_DLX and queue.settings.dead_letter_exchange is not None  # type: ignore[attr-defined]
        for queue in refusing
    )


def _end_of_run(messages: Sequence[Message], start: int) -> int:
    """Messages with the same key and the same properties are one run."""
    first = messages[start]
    end = start + 1
    while end < len(messages) and messages[end][1:3] == first[1:3]:
        end += 1
    return end
