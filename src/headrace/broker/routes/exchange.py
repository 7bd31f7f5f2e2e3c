"""The destination that is an exchange: each record is published as the message that `record.amqp.mapping` makes of it.

It is published as a client would publish it: CC and BCC, delays and alternate exchanges have their effect, and consumers see
the exchange and the routing key that it was routed by. A routing key that takes the place of a record's key does not lose that:
it goes into the header `x-opt-partition-key`, as a key does that can't be a routing key.

    no such exchange or virtual host, an internal exchange, a queue that refuses   wait, and try again
    no queue takes it, and the route says `mandatory`                              failure
    a message that no client could publish, as with an expiration that is no number   failure

A message never goes into the stream queue that is the route's own topic: it would come round for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.run import Run
from headrace.broker.queues.settings import Overflow
from headrace.broker.routes.destination import Delivery, Failure
from headrace.broker.routes.ends.exchange import ExchangeTarget
from headrace.broker.routes.runs import Queues, runs_of
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

    def close(self) -> None:
        pass

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        target = self._target
        vhost = self._find_vhost(target.vhost)
        if vhost is None:
            return Delivery(0, wait=f"there is no vhost '{target.vhost}'")
        if target.exchange and target.exchange not in vhost.exchanges:
            return Delivery(0, wait=f"there is no {exchange_text(target.exchange, target.vhost)}")
        if target.exchange and vhost.exchanges[target.exchange].internal:
            return Delivery(0, wait=f"cannot publish to internal {exchange_text(target.exchange, target.vhost)}")
        messages = [self._message(record) for record in records]
        failures: list[Failure] = []
        for start, end, queues in runs_of(vhost, target.exchange, messages):
            try:
                published = self._publish(vhost, Run.of(messages[start:end]), queues)
            except AmqpRefusal as refusal:
                if refusal.code == _NOT_FOUND:
                    return Delivery(start, failures, wait=refusal.text)
                failures += [Failure(place, refusal.text) for place in range(start, end)]
                continue
            if published.rejected and not _dead_lettered(queues):
                done = start + min(published.refused, default=0)
                return Delivery(done, failures, wait=f"a queue of {exchange_text(target.exchange, target.vhost)} takes no more")
            if not published.routed and target.mandatory:
                failures += [Failure(place, "no queue takes it: NO_ROUTE") for place in range(start, end)]
        return Delivery(len(messages), failures)

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

    def _publish(self, vhost: VirtualHost, run: Run, queues: Queues) -> Published:
        own = vhost.queues.get(self._topic.removeprefix(f"{vhost.name}."))
        if own is None or own not in queues or own.topic != self._topic:
            return vhost.publish(run)
        return vhost.republish(run, self._target.exchange, skip=lambda name: name == own.name)


def _dead_lettered(queues: Queues) -> bool:
    """Whether the queues that may have refused a message sent it to their dead-letter exchange: it is where it shall be."""
    refusing = [queue for queue in queues if isinstance(queue, Queue) and queue.one_by_one]
    return bool(refusing) and all(
        queue.settings.overflow is Overflow.REJECT_PUBLISH_DLX and queue.settings.dead_letter_exchange is not None
        for queue in refusing
    )
