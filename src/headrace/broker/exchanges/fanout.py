"""The fanout exchange: every binding matches every message."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.broker.exchanges.matcher import Destinations, Headers, MessageProperties, Node, Sees, count, uncount


class FanoutMatcher:
    sees = Sees.NOTHING
    every_key = False

    def __init__(self) -> None:
        self._destinations: Destinations = {}

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        count(self._destinations, node)

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        uncount(self._destinations, node)

    def only_key(self, key: str) -> bool:
        return False

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        return self._destinations
