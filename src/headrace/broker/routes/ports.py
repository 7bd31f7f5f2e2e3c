"""The ports of routes: what works at their ends, with sockets that the broker knows nothing of.

A route whose source is a topic has a *run* while it runs: for most destinations a `Transfer`, which hands pages of records to a
`Destination` in their order; a webhook brings a run of its own, since its events are retried one by one over days. A route whose
destination is a topic and whose source is outside has an *intake*, which puts what comes in into an `Inlet`.

The composition root registers who makes what (`Makers`); a maker imports its front end when it is first called, so that a server
without such a route does not load it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.record import Event

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.broker.routes.counts import Counts
    from headrace.broker.routes.definition import RouteDefinition
    from headrace.broker.routes.destination import Destination
    from headrace.broker.routes.positions import Positions
    from headrace.broker.settings import Settings
    from headrace.broker.topics import Topics
    from headrace.broker.vhosts.hosts import VirtualHosts
    from headrace.clock import Clock
    from headrace.log.port import Log, Synced, Topic


class Run(Protocol):
    """One life of a route, from when it starts until it is paused, changed or stopped."""

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
        LogError or RouteError, and then nothing of it was appended, or a part."""
        ...

    async def durable(self) -> None:
        """Returns when everything that was put so far is as durable as the topic promises. Raises StorageError."""
        ...

    async def room(self) -> None:
        """Returns when more may be put: backpressure."""
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


MakeDestination = Callable[["RouteDefinition", Surroundings], "Destination | Awaitable[Destination]"]
MakeRun = Callable[["RouteDefinition", "Topic", "Positions", "Counts", Surroundings], Run]
MakeIntake = Callable[["RouteDefinition", Inlet, Surroundings], Run]


@dataclass(slots=True)
class Makers:
    """By the `type` of an end."""

    destinations: dict[str, MakeDestination] = field(default_factory=dict)
    runs: dict[str, MakeRun] = field(default_factory=dict)
    intakes: dict[str, MakeIntake] = field(default_factory=dict)
