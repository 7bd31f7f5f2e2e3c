"""The port to where a route's records go.

A destination takes records of one partition in their order and says how far it came. What it took is durable, or on its way
to being so, when the log has synced next: a route commits its position after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.record import Record


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that can't be delivered, however often it is tried; `place` is its number among those that were given."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The first `done` records are dealt with: delivered, but for the failures among them. Those behind must be tried again
    later, if `wait` says why; there are none otherwise."""

    done: int
    failures: Sequence[Failure] = ()
    wait: str | None = None


class Destination(Protocol):
    async def deliver(self, records: Sequence[Record]) -> Delivery:
        """Never raises for what is the fault of a record or of the other side."""
        ...
