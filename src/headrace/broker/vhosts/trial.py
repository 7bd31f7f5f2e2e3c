"""Where a message would go: the way of `publishing`, step by step, with the bindings that matched; nothing is published.

Each exchange on the way is asked by the same matchers as for a real message. A matcher knows destinations and not the bindings
behind them, so each binding to a destination that matched is asked once more, alone. Where a choice is made by chance
(`x-random`), the one that was made here may be another next time.

Bounds: `MOST_BINDINGS` of a trial are shown, `MOST_LOOKED` looked at, and `MOST_QUEUES` queues shown; `complete` is False then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from random import Random
from typing import TYPE_CHECKING, Any

from headrace.broker.exchanges.exchange import DELAYED, Exchange
from headrace.broker.exchanges.kinds import matcher_for
from headrace.broker.queues.delayed import delay_of
from headrace.broker.queues.errors import AmqpRefusal, access_refused, precondition_failed
from headrace.broker.vhosts.names import exchange_text
from headrace.broker.vhosts.publishing import IMPERSONATOR, check_expiration, more_keys
from headrace.dataclass import dataclass
from headrace.record.amqp.properties import decode_properties

if TYPE_CHECKING:
    from headrace.broker.exchanges import Binding
    from headrace.broker.exchanges.matcher import Node
    from headrace.broker.vhosts.users import User
    from headrace.broker.vhosts.vhost import VirtualHost
    from headrace.record.amqp.message import Message
    from headrace.record.amqp.properties import Properties

MOST_BINDINGS = 500
MOST_LOOKED = 5000
MOST_QUEUES = 1000

_ONE_OF_MANY = ("x-consistent-hash", "x-modulus-hash", "x-random")  # all bindings together decide


@dataclass(slots=True)
class Step:
    """An exchange that the message comes to. `how` is "published", "bound" or "alternate", and `source` where it came from."""

    exchange: Exchange | None  # None: the default one
    how: str
    source: str | None
    bindings: list[Binding[Any]] = field(default_factory=list)
    matched: int = 0  # destinations


@dataclass(slots=True)
class Trial:
    steps: list[Step] = field(default_factory=list)
    queues: list[Any] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # alternate exchanges that are not there
    refused: str | None = None
    delay_ms: int = 0
    by_chance: bool = False
    complete: bool = True


def trial(vhost: VirtualHost, message: Message, user: User | None = None) -> Trial:
    """For a message of an exchange that is there, or of the default one. Raises MalformedProperties."""
    properties = decode_properties(message.properties)
    headers: Mapping[str, object] = properties.headers or {}
    found = Trial()
    exchange = vhost.exchanges.get(message.exchange)
    try:
        if exchange is not None and exchange.internal:
            raise access_refused(f"cannot publish to internal {exchange_text(exchange.name, vhost.name)}")
        if properties.expiration is not None:
            check_expiration(properties.expiration)
        keys = (message.routing_key, *more_keys(headers, "CC"), *more_keys(headers, "BCC"))
        claimed = properties.user_id
        if claimed is not None and user is not None and claimed != user.name and IMPERSONATOR not in user.tags:
            raise precondition_failed(f"user_id property set to '{claimed}' but authenticated user was '{user.name}'")
    except AmqpRefusal as refusal:
        found.refused = refusal.text
        keys = (message.routing_key,)  # where it would go, were it not refused
    if exchange is None:
        queues = dict.fromkeys(queue for queue in map(vhost.queues.get, keys) if queue is not None)
        found.steps.append(Step(None, "published", None, [], len(queues)))
        found.queues = list(queues)
        return found
    if exchange.kind == DELAYED:
        found.delay_ms = delay_of(message.properties)
    _follow(vhost, exchange, keys, headers, properties, found)
    return found


def _follow(
    vhost: VirtualHost,
    start: Exchange,
    keys: tuple[str, ...],
    headers: Mapping[str, object],
    properties: Properties,
    found: Trial,
) -> None:
    queues: dict[Any, None] = {}
    visited = {start.name}
    waiting = [Step(start, "published", None)]
    looked = 0
    while waiting:
        step = waiting.pop()
        exchange = step.exchange
        assert exchange is not None
        found.steps.append(step)
        matched = list(vhost.router.matched(exchange, keys, lambda: headers, lambda: properties))
        step.matched = len(matched)
        found.by_chance = found.by_chance or (exchange.routing_kind == "x-random" and vhost.router.in_use(exchange))
        shown = sum(len(each.bindings) for each in found.steps)
        for node in matched:
            if not isinstance(node, Exchange):
                queues[node] = None
            for binding in _bindings_to(vhost, node):
                looked += 1
                if looked > MOST_LOOKED or shown >= MOST_BINDINGS:
                    found.complete = False
                    break
                if binding.source is exchange and _matches(binding, keys, headers, properties):
                    step.bindings.append(binding)
                    shown += 1
        onward = [(node.name, "bound") for node in matched if isinstance(node, Exchange)]
        if not matched and exchange.alternate is not None:
            onward.append((exchange.alternate, "alternate"))
        for name, how in onward:
            if name in visited:
                continue
            visited.add(name)
            following = vhost.exchanges.get(name)
            if following is None or not name:
                found.missing.append(name)
            else:
                waiting.append(Step(following, how, exchange.name))
    found.complete = found.complete and len(queues) <= MOST_QUEUES
    found.queues = list(queues)[:MOST_QUEUES]


def _bindings_to(vhost: VirtualHost, node: Node) -> Iterable[Binding[Any]]:
    bindings_to: Callable[[Any], Iterable[Binding[Any]]] = vhost.router.bindings_to
    return bindings_to(node)


def _matches(binding: Binding[Any], keys: tuple[str, ...], headers: Mapping[str, object], properties: Properties) -> bool:
    if binding.source.routing_kind in _ONE_OF_MANY:
        return True
    alone = matcher_for(binding.source, Random(0))
    alone.add(binding.destination, binding.routing_key, binding.arguments)
    tried = keys if alone.every_key else keys[:1]
    return any(alone.match(key, lambda: headers, lambda: properties) for key in tried)
