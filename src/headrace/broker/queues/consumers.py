"""Who of a queue's consumers gets the next messages: the highest priority with room first, in turn among equals.

With a single active consumer all go to one, the first that came (of the highest priority); the others wait for it to leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue


@dataclass(slots=True)
class Chunk:
    """Messages on their way to one consumer."""

    queue: AnyQueue
    lane: int
    first_offset: int
    count: int
    data: bytes  # a whole batch; the first message's record begins at `position`
    position: int
    redelivered: bool
    delivery_count: int = 0  # of a quorum queue's message that was given back: delivered alone, with `x-delivery-count`
    headers: Mapping[str, object] | None = None  # to be added


class Consumer(Protocol):
    tag: str
    no_ack: bool
    exclusive: bool
    priority: int
    arguments: Mapping[str, object]

    def room(self) -> int:
        """How many messages it may get now."""
        ...

    def deliver(self, chunk: Chunk) -> int:
        """Returns the position behind the last message."""
        ...

    def cancelled(self) -> None:
        """Its queue is gone."""
        ...


class Consumers:
    def __init__(self) -> None:
        self._levels: list[list[Consumer]] = []  # by priority, highest first; in each the next one to be served comes first
        self._count = 0
        self.active: Consumer | None = None  # with a single active consumer

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Consumer]:
        return (consumer for level in self._levels for consumer in level)

    @property
    def exclusive(self) -> bool:
        return any(consumer.exclusive for consumer in self)

    def add(self, consumer: Consumer, *, single_active: bool) -> None:
        self._count += 1
        for number, level in enumerate(self._levels):
            if level[0].priority == consumer.priority:
                level.append(consumer)
                break
            if level[0].priority < consumer.priority:
                self._levels.insert(number, [consumer])
                break
        else:
            self._levels.append([consumer])
        if single_active and self.active is None:
            self.active = consumer

    def remove(self, consumer: Consumer, *, single_active: bool) -> bool:
        """False when it is not here."""
        for level in self._levels:
            if consumer in level:
                level.remove(consumer)
                if not level:
                    self._levels.remove(level)
                self._count -= 1
                if self.active is consumer:
                    self.active = next(iter(self), None) if single_active else None
                return True
        return False

    def next_with_room(self) -> tuple[Consumer | None, int, int]:
        """The consumer to serve now, its room, and how many of the same priority share with it."""
        if self.active is not None:
            room = self.active.room()
            return (self.active, room, 1) if room > 0 else (None, 0, 0)
        for level in self._levels:
            for number, consumer in enumerate(level):
                room = consumer.room()
                if room > 0:
                    if len(level) > 1:
                        level[:] = [*level[number + 1 :], *level[: number + 1]]
                    return consumer, room, len(level)
        return None, 0, 0
