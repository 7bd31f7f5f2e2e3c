"""The exchange types: which matcher each has, what it asks of an exchange and of a binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from headrace.broker.exchanges.chance import RandomMatcher
from headrace.broker.exchanges.direct import DirectMatcher
from headrace.broker.exchanges.exchange import DELAYED, Exchange
from headrace.broker.exchanges.fanout import FanoutMatcher
from headrace.broker.exchanges.hashing import (
    ConsistentHashMatcher,
    ModulusHashMatcher,
    check_hash_arguments,
    check_weight,
)
from headrace.broker.exchanges.headers import HeadersMatcher, check_headers_binding
from headrace.broker.exchanges.matcher import Matcher
from headrace.broker.exchanges.topic import TopicMatcher
from headrace.broker.queues.errors import precondition_failed
from headrace.dataclass import dataclass


def _anything(arguments: Mapping[str, object]) -> None:
    pass


def _any_binding(key: str, arguments: Mapping[str, object]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of exchange; the checks raise `AmqpRefusal`."""

    matcher: Callable[[Exchange, Random], Matcher]
    check_arguments: Callable[[Mapping[str, object]], None] = _anything
    check_binding: Callable[[str, Mapping[str, object]], None] = _any_binding


KINDS: Mapping[str, Kind] = {
    "direct": Kind(lambda exchange, random: DirectMatcher()),
    "fanout": Kind(lambda exchange, random: FanoutMatcher()),
    "topic": Kind(lambda exchange, random: TopicMatcher()),
    "headers": Kind(lambda exchange, random: HeadersMatcher(), check_binding=check_headers_binding),
    "x-consistent-hash": Kind(
        lambda exchange, random: ConsistentHashMatcher(exchange.arguments), check_hash_arguments, check_weight
    ),
    "x-modulus-hash": Kind(lambda exchange, random: ModulusHashMatcher()),
    "x-random": Kind(lambda exchange, random: RandomMatcher(random)),
}
"""Those that route by themselves; `x-delayed-message` routes as one of them."""

ALL_KINDS = (*KINDS, DELAYED)


def check_exchange(kind: str, arguments: Mapping[str, object]) -> None:
    """Whether an exchange of this type may be declared with these arguments."""
    if kind == DELAYED:
        behind = arguments.get("x-delayed-type")
        if behind == DELAYED:
            raise precondition_failed(f"Invalid argument, '{DELAYED}' can't be used for 'x-delayed-type'")
        if not isinstance(behind, str):
            raise precondition_failed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        kind = behind
    if kind not in KINDS:
        raise precondition_failed(f"unknown exchange type '{kind}'")
    KINDS[kind].check_arguments(arguments)


def check_binding(exchange: Exchange, key: str, arguments: Mapping[str, object]) -> None:
    KINDS[exchange.routing_kind].check_binding(key, arguments)


def matcher_for(exchange: Exchange, random: Random) -> Matcher:
    return KINDS[exchange.routing_kind].matcher(exchange, random)
