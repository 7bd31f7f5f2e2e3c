"""Exchanges that choose one destination by a hash, so that equal values always meet in the same queue.

`x-consistent-hash` hashes the routing key, or a header (`hash-header`), or a property (`hash-property`); the binding key
is the weight of its destination. Values fall into 65,536 slots, and each slot goes to the destination with the highest
score for it (rendezvous hashing): every destination gets a share as large as its weight, and when one comes or goes only
the values that it wins or had are moved. The choice depends on nothing but the bindings, so it is the same after a
restart. Who wins a slot is found when a message first falls into it and remembered until the bindings change.

`x-modulus-hash` takes the destination at the place `hash % number of destinations`, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import blake2b
from math import log

from headrace.broker.exchanges.exchange import Exchange
from headrace.broker.exchanges.matcher import (
    Destinations,
    Headers,
    MessageProperties,
    Node,
    Sees,
    count,
    uncount,
)
from headrace.broker.exchanges.values import comparable, printed, type_name
from headrace.broker.queues.errors import precondition_failed

MAX_WEIGHT = 10_000
SLOTS = 65_536

_HASHED_PROPERTIES = ("message_id", "correlation_id", "timestamp")
_WORD = 0xFFFF_FFFF_FFFF_FFFF


class ConsistentHashMatcher:
    every_key = False

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._header = arguments.get("hash-header")
        self._property = arguments.get("hash-property")
        by_header, by_property = self._header is not None, self._property is not None
        self.sees = Sees.HEADERS if by_header else Sees.MESSAGE if by_property else Sees.KEY
        self._weights: dict[Node, list[int]] = {}  # of all its bindings; the oldest counts
        self._seeds: dict[Node, int] = {}
        self._winners: dict[int, tuple[Node]] = {}

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        self._weights.setdefault(node, []).append(int(key))
        self._seeds.setdefault(node, _hash(_name_of(node)))
        self._winners.clear()

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        weights = self._weights[node]
        weights.remove(int(key))
        if not weights:
            del self._weights[node], self._seeds[node]
        self._winners.clear()

    def only_key(self, key: str) -> bool:
        return False

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        if not self._weights:
            return ()
        if self._header is not None:
            value = repr(comparable(headers().get(str(self._header))))
        elif self._property is not None:
            value = str(getattr(properties(), str(self._property)))
        else:
            value = key
        slot = _hash(value) % SLOTS
        winner = self._winners.get(slot)
        if winner is None:
            winner = self._winners[slot] = (self._winner(slot),)
        return winner

    def _winner(self, slot: int) -> Node:
        return max(self._weights, key=lambda node: (self._score(node, slot), self._seeds[node]))

    def _score(self, node: Node, slot: int) -> float:
        # The best of `weight` even draws has the distribution of one draw to the power of 1 / weight; its logarithm.
        draw = _mixed(self._seeds[node] + slot * 0x9E37_79B9_7F4A_7C15)
        return log((draw + 1) / (_WORD + 2)) / self._weights[node][0]


class ModulusHashMatcher:
    sees = Sees.KEY
    every_key = False

    def __init__(self) -> None:
        self._destinations: Destinations = {}
        self._in_order: list[Node] | None = None

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        count(self._destinations, node)
        self._in_order = None

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        uncount(self._destinations, node)
        self._in_order = None

    def only_key(self, key: str) -> bool:
        return False

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        if not self._destinations:
            return ()
        if self._in_order is None:
            self._in_order = sorted(self._destinations, key=_name_of)
        return (self._in_order[_hash(key) % len(self._in_order)],)


def check_hash_arguments(arguments: Mapping[str, object]) -> None:
    for name in ("hash-header", "hash-property"):
        if name in arguments and type_name(arguments[name]) != "longstr":
            raise precondition_failed(f"invalid type '{type_name(arguments[name])}' for arg '{name}'")
    by_property = arguments.get("hash-property")
    if by_property is not None and arguments.get("hash-header") is not None:
        raise precondition_failed("hash-header and hash-property are mutually exclusive")
    if by_property is not None and by_property not in _HASHED_PROPERTIES:
        raise precondition_failed(f"Unsupported property: {by_property}")


def check_weight(key: str, arguments: Mapping[str, object]) -> None:
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        raise precondition_failed(f"The binding key must be an integer: {printed(key)}")
    if key.startswith("-") or not digits.strip("0"):
        raise precondition_failed("The binding key must be greater than 0")
    if len(digits.lstrip("0")) > len(str(MAX_WEIGHT)) or int(digits) > MAX_WEIGHT:
        raise precondition_failed(f"The binding key must not exceed {MAX_WEIGHT}")


def _name_of(node: Node) -> str:
    # An exchange and a queue may have the same name.
    return f"{'exchange' if isinstance(node, Exchange) else 'queue'} {node.name}"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def _mixed(word: int) -> int:
    """The finalizer of splitmix64: every bit of the word changes every bit of the result."""
    word &= _WORD
    word = ((word ^ (word >> 30)) * 0xBF58_476D_1CE4_E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D0_49BB_1331_11EB) & _WORD
    return word ^ (word >> 31)
