"""What an exchange type is to the router: something that keeps bindings and finds those that match a message.

A destination counts once however many bindings lead to it, so matchers keep destinations with the number of bindings
behind each (`Destinations`), in the order in which they were first bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Protocol


class Node(Protocol):
    """A queue or an exchange: for a matcher they are alike. Compared and hashed by identity."""

    @property
    def name(self) -> str: ...


Destinations = dict[Node, int]
Headers = Callable[[], Mapping[str, object]]


class HashedProperties(Protocol):
    """The properties that an exchange can be told to hash."""

    @property
    def message_id(self) -> str | None: ...

    @property
    def correlation_id(self) -> str | None: ...

    @property
    def timestamp(self) -> int | None: ...


MessageProperties = Callable[[], HashedProperties]


class Sees(IntEnum):
    """What of a message decides where it goes; the more, the less can be remembered."""

    NOTHING = 0
    KEY = 1
    HEADERS = 2
    MESSAGE = 3  # differs even between messages with the same key and headers


class Matcher(Protocol):
    sees: Sees
    every_key: bool  # a message with CC and BCC keys is matched by each of them, not by the first alone

    def add(self, node: Node, key: str, arguments: Mapping[str, object]) -> None: ...

    def remove(self, node: Node, key: str, arguments: Mapping[str, object]) -> None:
        """Takes back one `add` with the same arguments."""

    def only_key(self, key: str) -> bool:
        """Whether a binding with this key can change where messages with that routing key go, and no others."""

    def match(self, key: str, headers: Headers, properties: MessageProperties) -> Collection[Node]:
        """Each destination once."""


def count(destinations: Destinations, node: Node) -> None:
    destinations[node] = destinations.get(node, 0) + 1


def uncount(destinations: Destinations, node: Node) -> bool:
    """Whether that was the last binding to this destination."""
    left = destinations[node] - 1
    if left:
        destinations[node] = left
        return False
    del destinations[node]
    return True
