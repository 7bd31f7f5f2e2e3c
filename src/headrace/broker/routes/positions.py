"""Where a route stands: the committed offsets of the group `headrace.route.<name>`, one for each partition of its topic.

They show up wherever groups do (`headrace group lag`) and go with the topic: a topic that is made anew under the same name is
another one. A partition without a position is read from its beginning. Positions of a paused route may be changed by whoever
changes those of groups. A group without members would lose them after `offsets.retention.minutes`, so they are committed again
from time to time (`refresh`); the field that Kafka has for a retention of their own would cost them the id of the topic.

A place to read from, for a new route and for a replay, is written as

    "earliest"  "latest"  1234  -10  "2026-03-01T09:30:00Z"

the last one being the first record at or behind that time, a negative number an offset that is so far before the end. An offset
that is gone means the oldest there is, one beyond the end means the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.broker.groups import Committer, GroupError, NewOffset
from headrace.broker.groups.errors import GroupNotFound
from headrace.broker.routes.errors import InvalidRoute, RouteConflict, RouteNotStored
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.groups import GroupCoordinator
    from headrace.log.port import Partition, Topic

_LARGEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read from: the beginning, the end, an offset (below 0: counted from the end) or a time."""

    latest: bool = False
    offset: int | None = None
    time_ms: int | None = None

    @classmethod
    def of(cls, given: object, member: str = "from") -> Place:
        """Raises InvalidRoute."""
        if given == "earliest":
            return cls()
        if given == "latest":
            return cls(latest=True)
        if isinstance(given, int) and not isinstance(given, bool) and -_LARGEST <= given <= _LARGEST:
            return cls(offset=given)
        if isinstance(given, str):
            try:
                moment = datetime.fromisoformat(given)
            except ValueError:
                pass
            else:
                since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
                return cls(time_ms=max(0, since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000))
        known = "'earliest', 'latest', an offset, -N for the last N, or a time such as '2026-03-01T09:30:00Z'"
        raise InvalidRoute(f"{member} must be {known}")

    async def in_partition(self, partition: Partition) -> int:
        end = partition.high_watermark
        if self.latest:
            return end
        if self.offset is not None:
            offset = self.offset if self.offset >= 0 else end + self.offset
            return min(max(offset, partition.start_offset), end)
        if self.time_ms is not None:
            found = await partition.offset_at(self.time_ms)
            return end if found is None else found.offset
        return partition.start_offset


class Positions:
    """Of one route."""

    def __init__(self, group_id: str, groups: GroupCoordinator) -> None:
        self.group_id = group_id
        self._groups = groups

    def get(self, topic: Topic, partition: int) -> int | None:
        committed = self._groups.positions(self.group_id).get(topic.name, {}).get(partition)
        if committed is None or (committed.topic_id is not None and committed.topic_id != topic.topic_id):
            return None
        return committed.offset

    async def commit(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Durable when it returns. Raises RouteConflict when the group belongs to somebody else, RouteNotStored when it
        can't be written."""
        new = [NewOffset(topic.name, index, offset, topic_id=topic.topic_id) for index, offset in offsets.items()]
        try:
            answers = await self._groups.commit_offsets(self.group_id, Committer(), new)
        except GroupError as error:
            raise self._refused(error) from error
        for answer in answers:
            if answer is not None:
                raise self._refused(answer)

    async def refresh(self, topic: Topic, before_ms: int) -> None:
        """Commits once more what was committed before that time."""
        committed = self._groups.positions(self.group_id).get(topic.name, {})
        old = {index: position.offset for index, position in committed.items() if position.commit_timestamp_ms < before_ms}
        if old and self.get(topic, next(iter(old))) is not None:
            await self.commit(topic, old)  # nothing is awaited between looking and writing

    def _refused(self, error: GroupError) -> Exception:
        group = self._groups.find(self.group_id)
        if group is not None and not group.removable:
            return RouteConflict(f"group {self.group_id} has members: only its route may use it")
        return RouteNotStored(f"the position can't be written: {error or type(error).__name__}")

    async def forget(self) -> None:
        (answer,) = await self._groups.delete_groups([self.group_id])
        if answer is not None and not isinstance(answer, GroupNotFound):
            raise self._refused(answer)
