"""What a subscriber gets: an event, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.record import Event


@dataclass(frozen=True, slots=True)
class Received:
    """`topic` is the name it was sent under, "" if it had none. `offset` is its number in what it was read from (the log, the
    sequence of a feed), where there is such a number; in a topic with several partitions, in that `partition`."""

    event: Event
    topic: str = ""
    offset: int | None = None
    partition: int | None = None
