"""Where a follower begins, and what of the topic it wants: from the query of a stream, or from a message of a WebSocket.

    from        earliest, latest (the default), an offset, -N for the last N, or a time such as 2026-03-01T09:30:00Z
    position    one that was given out earlier; goes before `from`. `Last-Event-ID` is the same, and goes before both
    partition   one partition instead of all
    filter      a condition on records, in CEL

An offset without a partition holds for each of them. A position of an earlier life of the topic (it was deleted and made anew
since) means the beginning of the new one: a `reset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.routes.positions import Place
from headrace.dataclass import dataclass
from headrace.http.problems import Problem
from headrace.http.v1.following import Notice, offsets_at
from headrace.http.v1.position import MAX_PARTITIONS, BadPosition, Position

if TYPE_CHECKING:
    from headrace.log.port import Topic

LATEST = "latest"
_MEMBERS = ("from", "position", "partition", "filter")


@dataclass(frozen=True, slots=True)
class Start:
    """What somebody asked for, checked as far as that goes without the topic."""

    place: Place
    position: Position | None = None
    partition: int | None = None
    filter: str | None = None

    @classmethod
    def of_query(cls, query: Mapping[str, str], last_event_id: str = "") -> Start:
        """Raises Problem."""
        unknown = sorted(query.keys() - set(_MEMBERS))
        if unknown:
            raise Problem(
                400, "unknown_parameter", f"there is no parameter {unknown[0][:100]!r}; there are: {', '.join(_MEMBERS)}"
            )
        given = query.get("from", LATEST)
        digits = given.removeprefix("-")
        number = digits.isascii() and digits.isdecimal() and len(digits) <= 19
        partition = query.get("partition")
        if partition is not None and not (partition.isascii() and partition.isdecimal() and len(partition) <= 9):
            raise Problem(400, "unknown_partition", "partition must be the number of one")
        return cls.of(
            int(given) if number else given.replace(" ", "+"),  # what a plus sign becomes in a query
            last_event_id or query.get("position") or None,
            None if partition is None else int(partition),
            query.get("filter"),
        )

    @classmethod
    def of(cls, place: object, position: str | None, partition: int | None, condition: str | None) -> Start:
        """Raises Problem."""
        try:
            where = Place.of(place)
        except InvalidRoute as error:
            raise Problem(400, "invalid_from", str(error)) from None
        try:
            return cls(where, None if position is None else Position.of(position), partition, condition or None)
        except BadPosition as error:
            raise Problem(400, "invalid_position", str(error)) from None

    async def offsets(self, topic: Topic) -> tuple[dict[int, int], list[Notice]]:
        """Of each partition that is wanted, and what there is to tell about it. Raises Problem and LogError."""
        total = len(topic.partitions)
        if self.partition is None and total > MAX_PARTITIONS:
            text = f"the topic has {total} partitions; more than {MAX_PARTITIONS} can't be followed together: choose one"
            raise Problem(400, "too_many_partitions", text)
        if self.partition is not None and not 0 <= self.partition < total:
            raise Problem(404, "unknown_partition", f"the topic has no partition {self.partition}; there are {total}")
        wanted = range(total) if self.partition is None else (self.partition,)
        if self.position is not None:
            known = offsets_at(topic, self.position)
            if known is None:
                starts = {index: topic.partitions[index].start_offset for index in wanted}
                return starts, [Notice("reset", {"reason": "the topic was deleted and made anew"})]
            if self.partition is not None and self.partition not in known:
                raise Problem(400, "invalid_position", f"the position is not one of partition {self.partition}")
            if self.partition is None and self.position.single:
                raise Problem(400, "invalid_position", "the position is one of a single partition")
            return {index: known.get(index, topic.partitions[index].start_offset) for index in wanted}, []
        return {index: await self.place.in_partition(topic.partitions[index]) for index in wanted}, []
