"""`x-random`: each message goes to one of the destinations, any of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from headrace.broker.exchanges.matcher import Destinations, Headers, MessageProperties, Node, Sees, count, uncount


class RandomMatcher:
    sees = Sees.MESSAGE
    every_key = False

    def __init__(self, random: Random) -> None:
        self._random = random
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
            self._in_order = list(self._destinations)
        return (self._random.choice(self._in_order),)
