"""Messages that go the same way, gathered into runs: a queue takes a run in one append.

A run of clients has messages with one routing key and, where there are headers, the same ones; here keys and headers may
differ as long as nothing depends on them: the exchange routes by the key alone, all keys lead to the same queues, and no
message has CC, BCC, a priority, an expiration, a reply-to or a user-id. All messages of a run are persistent or none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.exchanges.exchange import DELAYED
from headrace.record.amqp.message import Message
from headrace.record.amqp.properties import EXPIRATION, PRIORITY, REPLY_TO, USER_ID, headers, is_persistent

if TYPE_CHECKING:
    from headrace.broker.vhosts.vhost import VirtualHost

RUN_BYTES = 512 * 1024

_SPECIAL = PRIORITY | REPLY_TO | EXPIRATION | USER_ID

Queues = tuple[object, ...]


def runs_of(vhost: VirtualHost, exchange: str, messages: Sequence[Message]) -> Iterator[tuple[int, int, Queues]]:
    """The first place of each run, the one behind its last, and the queues that its routing key leads to. Lazily: what was
    published may have changed who gets the next one."""
    start = 0
    while start < len(messages):
        end, queues = _run(vhost, exchange, messages, start)
        yield start, end, queues
        start = end


def _run(vhost: VirtualHost, exchange: str, messages: Sequence[Message], start: int) -> tuple[int, Queues]:
    first = messages[start]
    way = _Way(vhost, exchange)
    queues = way.of(first)
    end = start + 1
    there = vhost.exchanges.get(exchange)
    if way.looked_into or vhost.router.sees_each_message(exchange) or (there is not None and there.kind == DELAYED):
        return end, queues
    if not _simple(first.properties):
        return end, queues
    persistent = is_persistent(first.properties)
    size = len(first.body)
    known = {first.routing_key}
    while end < len(messages) and size < RUN_BYTES:
        message = messages[end]
        if not _simple(message.properties) or is_persistent(message.properties) != persistent:
            break
        if message.routing_key not in known:
            if way.of(message) != queues or way.looked_into:
                break
            known.add(message.routing_key)
        size += len(message.body)
        end += 1
    return end, queues


class _Way:
    """Where messages would go, and whether anybody looks into their headers for that."""

    def __init__(self, vhost: VirtualHost, exchange: str) -> None:
        self._vhost = vhost
        self._exchange = exchange
        self._message: Message | None = None
        self.looked_into = False

    def of(self, message: Message) -> Queues:
        self._message = message
        return self._vhost.router.route(self._exchange, message.routing_key, self._headers)

    def _headers(self) -> Mapping[str, object]:
        self.looked_into = True
        assert self._message is not None
        return headers(self._message.properties)


def _simple(raw: bytes) -> bool:
    return not int.from_bytes(raw[:2], "big") & _SPECIAL and b"CC" not in raw
