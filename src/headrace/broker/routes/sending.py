"""The port to what sends requests to others and keeps a record of its attempts: how the HTTP front end asks about them.

A run that does so also has `measures() -> Measures`, for the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Surroundings
    from headrace.broker.routes.route import Route


@dataclass(frozen=True, slots=True)
class WantedAttempts:
    since_ms: int | None = None
    until_ms: int | None = None
    status: str | None = None  # one of `STATUSES`
    event: tuple[int, int] | None = None  # partition and offset
    limit: int = 100
    cursor: int | None = None  # attempts before that one


@dataclass(slots=True)
class FoundAttempts:
    """The newest first. `cursor` is where to go on, None if there is nothing more."""

    attempts: list[dict[str, object]] = field(default_factory=list)
    cursor: int | None = None


@dataclass(slots=True)
class Measures:
    """What a run that sends requests has done and does; attempts and times since the server started."""

    attempts: Counter[str] = field(default_factory=Counter)  # by result
    delay_s: float = 0.0  # from when events were written to when they were delivered, all together
    request_s: float = 0.0  # how long attempts took, all together
    pending: int = 0
    in_flight: int = 0
    is_open: bool = False  # its breaker


STATUSES = ("delivered", "failed", "retrying", "given-up", "gone")
MAX_FOUND = 1000


class Sender(Protocol):
    """Of one route. All of it raises LogError and RouteError; what sends something needs a route that runs."""

    async def attempts(self, wanted: WantedAttempts) -> FoundAttempts: ...

    async def attempt(self, number: int) -> dict[str, object] | None:
        """With the request as it was sent, as far as the event is still there."""
        ...

    def event_of(self, text: str) -> tuple[int, int] | None:
        """Partition and offset, from `0:17` or from the id that was sent."""
        ...

    async def send_again(self, number: int) -> dict[str, object]:
        """The event of that attempt, now. Durable when it returns."""
        ...

    async def send_failed_again(self, since_ms: int | None, until_ms: int | None) -> dict[str, object]:
        """Events that failed between these times, and have not been delivered since. Durable when it returns."""
        ...

    async def test(self) -> dict[str, object]:
        """Sends something that is no event, and says what came of it. Also for a route that is paused."""
        ...


MakeSender = Callable[["Route", "Surroundings"], Awaitable[Sender]]
