"""The port to what takes requests from outside: how the HTTP front end hands a request to the intake of a route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from headrace.dataclass import dataclass


class Rejected(Exception):
    """Nobody knows who sent it. It has no text: whoever tries to forge one learns nothing."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """It is durable, by this request or by one before it. `reply` is what the sender wants to hear, as JSON."""

    new: bool
    reply: Mapping[str, object] | None = None


@runtime_checkable
class Receiver(Protocol):
    """The names of headers are in lower case; where one came several times, its values are joined by commas."""

    @property
    def max_bytes(self) -> int:
        """How long a body may be."""
        ...

    def glance(self, headers: Mapping[str, str]) -> None:
        """Before the body is read. Raises Rejected for what can't be right, whatever the body is."""
        ...

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Returns when it is durable. Raises Rejected, LogError, RouteError."""
        ...
