"""The ports of routes: what works at their ends, with sockets that the broker knows nothing of.

A route whose source is a topic has a *run* while it runs: for most destinations a `Transfer`, which hands pages of records to
a `Destination` in their order; a webhook brings a run of its own, since its events are retried one by one over days. A route
whose destination is a topic and whose source is outside has an *intake*, which puts what comes in into an `Inlet`.

The composition root registers who makes what (`Makers`); a maker imports its front end when it is first called, so that a
server without such a route does not load it. A maker may return what it makes or an awaitable of it. One that raises OSError,
LogError or RouteError is called again later, and until then the route is blocked with that as its error (`opening`): so an
address that is taken is simply raised. Makers run on the event loop and return soon.

A run that works by itself filters and transforms with `shaping.Shape.of(definition, surroundings.evaluator)`, which is None
where there is nothing to do; a `Transfer` and an `Inlet` have done so before anybody sees a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from headrace.broker.routes.filling import Entry
from headrace.dataclass import dataclass
from headrace.record import Event

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.positions import Positions
    from headrace.broker.routes.sending import MakeSender
    from headrace.broker.settings import Settings
    from headrace.broker.spans import Spans
    from headrace.broker.topics import Topics
    from headrace.broker.traffic import Traffic
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.clock import Clock
    from headrace.expressions.expressions import Evaluator
    from headrace.log.port import Lease, Log, Synced, Topic

MAX_PUT = 10_000


class Run(Protocol):
    """One life of a route, from when it starts until it is paused, changed or stopped. A run may also have

        def facts(self) -> dict[str, object]

    which is shown with the route as `details`, and

        async def replay(self, periods: Mapping[int, tuple[int, int]]) -> dict[str, object]

    which delivers the records of a period again, by partition the first offset and the one behind the last, without moving the
    route's position; it returns as soon as that is written down or under way, with what is shown of it (`{"events": 17}`), and
    raises RouteError. Where a run has no such method the route does it itself (`replay`)."""

    @property
    def error(self) -> str | None:
        """Why something waits, if it does."""
        ...

    def grown(self) -> None:
        """Its topic has more partitions."""
        ...

    async def stop(self) -> None:
        """In order: what was delivered is remembered."""
        ...

    def close(self) -> None:
        """At once: the topic is gone, or the server."""
        ...


class Inlet(Protocol):
    """Where an intake puts what came in: filtered, transformed, and appended to the partition that the key picks."""

    def put(self, events: Sequence[Event]) -> None:
        """Appends now; durable when `durable` says so. What filter or transform fail on goes to the dead letters. Raises
        LogError or RouteError, and then nothing of it was appended, or a part. A call is one append for each partition: the
        more events it brings the less each costs, up to a thousand or so; no more than `MAX_PUT` in one call, others wait.
        Where the route has a filter or a transform it is appended a little later, in order, and `durable` waits for that."""
        ...

    def put_entries(self, entries: Sequence[Entry]) -> None:
        """The same for plain tuples of key, value, headers and timestamp (None: now), which cost a fifth of an Event. A key or
        value may be any bytes-like object where the route has neither filter nor transform and the topic one partition;
        otherwise bytes."""
        ...

    async def put_with(self, entry: Entry, lease: Lease, rows: Mapping[bytes, bytes | None]) -> bool:
        """One event and rows of a table, together or not at all, also across a crash; durable when `durable` says so. False if
        the event was not appended but filtered out, or is on its way to the dead letters: then the rows are not written.
        Raises LogError or RouteError, and then nothing has happened."""
        ...

    async def durable(self) -> None:
        """Returns when everything that was put so far is as durable as the topic promises. Raises StorageError, or RouteError
        when it can't be filtered, transformed or written now; it may still be later."""
        ...

    async def room(self) -> None:
        """Returns when more may be put: backpressure. To be awaited before each put, or at least between every few."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a maker may use."""

    log: Log
    clock: Clock
    settings: Settings
    topics: Topics
    groups: GroupCoordinator
    vhosts: VirtualHosts
    after_sync: Callable[[Synced], None]
    slots: asyncio.Semaphore
    traffic: dict[str, Traffic]  # by protocol, for the metrics: a front end adds its own
    evaluator: Evaluator  # of filters and transforms
    visitors: Evaluator  # the same for requests of people, who shall not be in the way of routes
    disable: Callable[[str, str], Awaitable[None]]  # a route by its name, and why: until somebody resumes it. Raises RouteError
    spans: Spans | None = None  # of what is sampled; None: nobody collects them
    shared: dict[str, object] = field(default_factory=dict)  # what the runs of one type of end have in common


MakeDestination = Callable[["RouteDefinition", Surroundings], "Destination | Awaitable[Destination]"]
MakeRun = Callable[["RouteDefinition", "Topic", "Positions", "Counts", Surroundings], "Run | Awaitable[Run]"]
MakeIntake = Callable[["RouteDefinition", Inlet, Surroundings], "Run | Awaitable[Run]"]
Check = Callable[["RouteDefinition"], None]
Forget = Callable[["RouteDefinition", Surroundings], Awaitable[None]]


@dataclass(slots=True)
class Makers:
    """By the `type` of an end."""

    destinations: dict[str, MakeDestination] = field(default_factory=dict)
    runs: dict[str, MakeRun] = field(default_factory=dict)
    intakes: dict[str, MakeIntake] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)  # of a destination, when its route is put. Raises InvalidRoute
    senders: dict[str, MakeSender] = field(default_factory=dict)
    forget: dict[str, Forget] = field(default_factory=dict)  # what runs to such a destination keep: the route is new, or gone
