"""A route: its definition, whether it runs, and why not.

running   it delivers, or has delivered all there is; one that comes from outside: it takes what comes
blocked   something can't be delivered or opened now; it is tried again by itself, and the error says why
waiting   there is no such topic; it begins when there is one
paused    somebody said so
disabled  its endpoint wants nothing more, or has failed for days: until somebody resumes it; the error says why

A topic that a route is to fill from outside is made when the route begins, where the server makes topics by itself. One that is
deleted under it is not made again before somebody resumes the route, or the server starts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.broker.routes.counts import Counts
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.opening import Opening
from headrace.broker.routes.positions import Positions
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.broker.routes.ports import Run
    from headrace.broker.routes.replaying import Replay
    from headrace.broker.topics import Topics
    from headrace.clock import Clock
    from headrace.log.port import Topic

    MakeRun = Callable[["Route"], Run | Awaitable[Run]]


class State(StrEnum):
    RUNNING = "running"
    BLOCKED = "blocked"
    WAITING = "waiting"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    partition: int
    position: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


class Route:
    def __init__(
        self, definition: RouteDefinition, positions: Positions, topics: Topics, clock: Clock, make_run: MakeRun
    ) -> None:
        self.definition = definition
        self.positions = positions
        self.counts = Counts()
        self.replay: Replay | None = None  # what it delivers once more
        self._topics = topics
        self._clock = clock
        self._make_run = make_run
        self._opening: Opening | None = None
        self.halted = False

    # --- what it is like

    @property
    def topic(self) -> Topic | None:
        """The one that it reads, or fills from outside."""
        return self._topics.get(self.definition.topic)

    @property
    def run(self) -> Run | None:
        """Its life at the moment."""
        return None if self._opening is None else self._opening.run

    @property
    def state(self) -> State:
        if self.definition.paused:
            return State.PAUSED if self.definition.disabled is None else State.DISABLED
        if self.topic is None:
            return State.WAITING
        return State.RUNNING if self.error is None else State.BLOCKED

    @property
    def error(self) -> str | None:
        if self.definition.paused:
            return self.definition.disabled
        if self.topic is None:
            return f"there is no topic '{self.definition.topic}'"
        return None if self._opening is None else self._opening.error

    def standings(self) -> list[PartitionStanding]:
        """Where it stands by what is committed, in each partition that it reads."""
        topic = None if self.definition.inbound else self.topic
        found = []
        for partition in topic.partitions if topic is not None else ():
            assert topic is not None
            position = self.positions.get(topic, partition.index)
            here = partition.start_offset if position is None else max(position, partition.start_offset)
            found.append(PartitionStanding(partition.index, here, partition.high_watermark))
        return found

    # --- its life

    def begin(self) -> None:
        """Runs, if it may and can."""
        self.halted = False
        if self._opening is None and not self.definition.paused and self.topic is not None:
            self._opening = Opening(self.definition.name, lambda: self._make_run(self), self._clock)

    async def halt(self) -> None:
        """Until `begin`."""
        self.halted = True
        opening, self._opening = self._opening, None
        if opening is not None:
            await opening.stop()

    def close(self) -> None:
        """At once."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.close()

    def grown(self) -> None:
        if self._opening is not None:
            self._opening.grown()
