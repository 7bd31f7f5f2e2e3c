"""A period that a route delivers once more, beside what it delivers anyway: by partition, from an offset up to another.

It has a position of its own, that of the group `headrace.replay.<route>`, so that it goes on after a restart where it was.
There is one at a time. The end is not a part of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.routes.positions import Positions
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.log.port import Topic

GROUP_PREFIX = "headrace.replay."

Period = tuple[int, int]  # the first offset, and the one behind the last


@dataclass(frozen=True, slots=True)
class Replay:
    periods: Mapping[int, Period]  # by partition
    positions: Positions

    @classmethod
    def of(cls, route: str, periods: Mapping[int, Period], groups: GroupCoordinator) -> Replay:
        return cls(periods, Positions(GROUP_PREFIX + route, groups))

    @classmethod
    def of_row(cls, route: str, row: bytes, groups: GroupCoordinator) -> Replay:
        """Raises ValueError."""
        try:
            given = json.loads(row)["periods"]
            return cls.of(route, {int(index): (int(start), int(end)) for index, (start, end) in given.items()}, groups)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a replay: {error}") from None

    def row(self) -> bytes:
        return json.dumps({"periods": {str(index): list(period) for index, period in self.periods.items()}}).encode()

    def position(self, topic: Topic, index: int) -> int:
        """Where it stands in a partition."""
        start, end = self.periods[index]
        known = self.positions.get(topic, index)
        return start if known is None else min(max(known, start), end)

    def done(self, topic: Topic) -> bool:
        return all(self.position(topic, index) >= end for index, (_, end) in self.periods.items())

    def shown(self, topic: Topic) -> dict[str, object]:
        partitions = [
            {"partition": index, "from": start, "to": end, "position": self.position(topic, index)}
            for index, (start, end) in sorted(self.periods.items())
        ]
        return {"left": self.left(topic), "partitions": partitions}

    def left(self, topic: Topic) -> int:
        """How many offsets are still before it."""
        return sum(end - self.position(topic, index) for index, (_, end) in self.periods.items())
