"""The direct exchange: the routing key is the binding key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.broker.exchanges.matcher import Destinations, Headers, MessageProperties, Node, Sees, count, uncount


class DirectMatcher:
    sees = Sees.KEY
    every_key = True

    def __init__(self) -> None:
        self._by_key: dict[str, Destinations] = {}

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        count(self._by_key.setdefault(key, {}), node)

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        destinations = self._by_key[key]
        uncount(destinations, node)
        if not destinations:
            del self._by_key[key]

    def only_key(self, key: str) -> bool:
        return True

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        return self._by_key.get(key, ())
