"""Dead letters that wait in queues, for what the overview says needs attention.

A queue is told of if a dead letter exchange leads to it, directly or by the default exchange, and something is in it.
Dead-letter topics are not: their records stay when they were retried, so there would always be something to say.

Bounds: it is looked at every `LOOK_S` at most, a little at a time (`walking`); `MOST_BINDINGS` of each virtual host are
followed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from headrace.broker.exchanges import Exchange
from headrace.http.v1.attention import MOST_OF_A_KIND, Attention, of_dead_letters
from headrace.http.v1.walking import Walk

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.vhosts.vhost import VirtualHost

LOOK_S = 5.0
STEP = 10
MOST_BINDINGS = 1000


class DeadLettersLeft:
    """In the queues of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._walk = Walk(self._look)
        self._found: list[tuple[int, str, str]] = []  # messages, virtual host, queue
        self._next_s = 0.0

    async def told(self) -> list[Attention]:
        if time.monotonic() >= self._next_s:
            self._found = await self._walk.look()
            self._next_s = time.monotonic() + LOOK_S
        return [of_dead_letters(vhost, queue, messages) for messages, vhost, queue in self._found]

    async def _look(self) -> AsyncIterator[list[tuple[int, str, str]] | None]:
        found: dict[tuple[str, str], int] = {}
        steps = 0
        for vhost in tuple(self._broker.vhosts):
            ways: set[tuple[str, str]] = set()  # exchange and routing key, or no key where any would do
            for queue in tuple(vhost.queues.values()):
                exchange, key = queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key
                if exchange is not None:
                    ways.add((exchange, "" if exchange else key or ""))
                steps += 1
                if steps % STEP == 0:
                    yield None
            led_to = chain.from_iterable(_led_to(vhost, *way) for way in ways)
            for name in islice(led_to, MOST_BINDINGS):
                dead = vhost.queues.get(name)
                if dead is not None and dead.kind != "stream" and dead.message_count:
                    found[vhost.name, name] = dead.message_count
                steps += 1
                if steps % STEP == 0:
                    yield None
        yield sorted(((count, *place) for place, count in found.items()), reverse=True)[:MOST_OF_A_KIND]


def _led_to(vhost: VirtualHost, exchange: str, key: str) -> list[str]:
    """Names of queues. All at once: who walks pauses, and bindings change meanwhile."""
    if not exchange:
        return [key]
    source = vhost.exchanges.get(exchange)
    bindings = () if source is None else islice(vhost.router.bindings_from(source), MOST_BINDINGS)
    return [each.destination.name for each in bindings if not isinstance(each.destination, Exchange)]
