"""The port to where a route's records go.

A destination takes records of one partition in their order and says how far it came. What it took is durable, or on its way
to being so, when the log has synced next: a route commits its position after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.dataclass import dataclass
from headrace.record import Record


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that can't be delivered, however often it is tried; `place` is its number among those that were given."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The first `done` records are dealt with: delivered, but for the failures among them. Those behind must be tried again
    later, if `wait` says why; there are none otherwise. They are tried again after `again_in_s`, or else after 0.1 s and then
    less and less often. An empty `wait` is no trouble, and nobody is told: a pace that is kept, a buffer that is full now."""

    done: int
    failures: Sequence[Failure] = ()
    wait: str | None = None
    again_in_s: float | None = None


Gone = Callable[[str | None], None]


class Destination(Protocol):
    """One whose `deliver` only hands over, to queues that a crash would empty, also has

        def when_gone(self, gone: Gone) -> None

    which calls `gone(None)` when all that was delivered so far has left them: the position is committed then. With words in
    place of None some of it was lost, and all that has no position yet is delivered again."""

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        """Records of that partition of the route's topic, filtered and transformed; there may be gaps between their offsets.
        Never raises for what is the fault of a record or of the other side. Returns soon: what can't be sent now waits, since
        others need the slot. It is never called again before it returned, for whatever partition."""
        ...

    def close(self) -> None:
        """The route ends here. Nothing is delivered any more; never called twice."""
        ...
