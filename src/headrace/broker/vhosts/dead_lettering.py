"""Dead letters: messages that left a queue without having been consumed go on through its dead letter exchange.

They are routed as any message, with the story of their deaths in the headers. A queue that would get one round in circles is
left out; what no queue takes is gone. They never fail: an exchange that is not there takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, cast

from headrace.broker.queues.dead_letter_headers import Reason, dead_letter_keys, dead_letter_properties, is_cycle
from headrace.broker.queues.run import Run
from headrace.record.amqp.properties import headers

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue
    from headrace.broker.vhosts.vhost import VirtualHost
    from headrace.clock import Clock
    from headrace.record.amqp.message import Message


class DeadLetters:
    def __init__(self, clock: Clock, vhost_named: Callable[[str], VirtualHost | None]) -> None:
        self._clock = clock
        self._vhost_named = vhost_named

    def __call__(self, queue: Queue, messages: list[Message], reason: str) -> bool:
        """Whether something durable took any of them."""
        vhost = self._vhost_named(queue.vhost)
        exchange = queue.settings.dead_letter_exchange
        if vhost is None or exchange is None:
            return False
        durable = False
        # Messages that were one run when they came are one again: what makes runs differ is not changed by a death.
        for (_, _, raw), group in groupby(messages, key=lambda message: message[:3]):
            dead = self._bury(queue, list(group), raw, cast(Reason, reason), exchange)
            found = headers(dead[0].properties)
            keys = dead_letter_keys(dead[0].routing_key, found, queue.settings.dead_letter_routing_key)
            skip = partial(is_cycle, found, reason=cast(Reason, reason))
            durable = vhost.republish(Run.of(dead), exchange, keys, skip=skip).durable or durable
        return durable

    def _bury(self, queue: Queue, messages: list[Message], raw: bytes, reason: Reason, exchange: str) -> list[Message]:
        first = messages[0]
        key = queue.settings.dead_letter_routing_key
        properties = dead_letter_properties(
            raw,
            queue=queue.name,
            reason=reason,
            exchange=first.exchange,
            routing_key=first.routing_key,
            time_s=self._clock.now_ms() // 1000,
            dead_letter_key=key,
        )
        routing_key = first.routing_key if key is None else key
        return [m._replace(exchange=exchange, routing_key=routing_key, properties=properties) for m in messages]
