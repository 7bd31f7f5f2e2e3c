"""A route: its definition, whether it runs, and why not.

running   it delivers, or has delivered all there is
blocked   something can't be delivered now; it is tried again by itself, and the error says why
waiting   there is no such topic; it begins when there is one
paused    somebody said so
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.broker.routes.counts import Counts
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.positions import Positions
from headrace.broker.routes.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.topics import Topics
    from headrace.log.port import Topic

    MakeTransfer = Callable[[RouteDefinition, Topic, Positions, Counts], Transfer]


class State(StrEnum):
    RUNNING = "running"
    BLOCKED = "blocked"
    WAITING = "waiting"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    partition: int
    position: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


class Route:
    def __init__(self, definition: RouteDefinition, positions: Positions, topics: Topics, make_transfer: MakeTransfer) -> None:
        self.definition = definition
        self.positions = positions
        self.counts = Counts()
        self._topics = topics
        self._make_transfer = make_transfer
        self._transfer: Transfer | None = None

    # --- what it is like

    @property
    def topic(self) -> Topic | None:
        return self._topics.get(self.definition.topic)

    @property
    def state(self) -> State:
        if self.definition.paused:
            return State.PAUSED
        if self.topic is None:
            return State.WAITING
        return State.RUNNING if self.error is None else State.BLOCKED

    @property
    def error(self) -> str | None:
        if self.definition.paused:
            return None
        if self.topic is None:
            return f"there is no topic '{self.definition.topic}'"
        return None if self._transfer is None else self._transfer.error

    def standings(self) -> list[PartitionStanding]:
        """Where it stands by what is committed, in each partition."""
        topic = self.topic
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
        topic = self.topic
        if self._transfer is None and topic is not None and not self.definition.paused:
            self._transfer = self._make_transfer(self.definition, topic, self.positions, self.counts)

    async def halt(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            await transfer.stop()

    def close(self) -> None:
        """At once."""
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            transfer.close()

    def grown(self) -> None:
        if self._transfer is not None:
            self._transfer.grown()
