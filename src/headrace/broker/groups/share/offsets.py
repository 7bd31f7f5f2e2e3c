"""Where share groups stand, for administrators: told, moved, forgotten. Only a group without members can be moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from headrace.broker.audit import About, audited
from headrace.broker.groups.errors import GroupError, GroupNotEmpty
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.partitions import SharePartitions
from headrace.broker.groups.share.state_rows import Place
from headrace.broker.groups.share.state_store import StateStore
from headrace.broker.topics import Topics
from headrace.dataclass import dataclass
from headrace.log.errors import LogError, UnknownTopic
from headrace.log.port import Topic

NOT_BEGUN = -1
NO_LAG = -1

_NOT_HERE = "This server does not host this topic-partition."


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition as a share group has it."""

    partition: int
    start_offset: int = NOT_BEGUN
    leader_epoch: int = 0
    lag: int = NO_LAG
    error: LogError | None = None


@dataclass(frozen=True, slots=True)
class TopicStanding:
    topic: str
    topic_id: UUID | None
    partitions: Sequence[Standing]


class GroupToMove(Protocol):
    def __call__(self, group_id: str, *, begins: bool) -> ShareGroup | None: ...


def _moved(offsets: ShareOffsets, group_id: str, wanted: Mapping[str, Mapping[int, int | None]]) -> About:
    return About(group_id, {"topics": sorted(wanted)})


def _forgotten(offsets: ShareOffsets, group_id: str, names: Sequence[str]) -> About:
    return About(group_id, {"topics": sorted(names)})


class ShareOffsets:
    def __init__(
        self,
        partitions: SharePartitions,
        store: StateStore,
        topics: Topics,
        find_group: Callable[[str], ShareGroup],
        group_to_move: GroupToMove,
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._topics = topics
        self._find_group = find_group
        self._group_to_move = group_to_move

    async def describe(self, group_id: str, wanted: Mapping[str, Sequence[int]] | None) -> list[TopicStanding]:
        """Of these partitions, or of all that the group has begun; a group that does not exist has begun nothing. What a crash
        could take back is not told."""
        try:
            await self._store.kept()
        except GroupError:
            pass  # on a log that can't sync, reads go on
        if wanted is None:
            wanted = self._begun(group_id)
        return [self._topic_standing(group_id, name, indexes) for name, indexes in wanted.items()]

    def positions(self, group_id: str) -> dict[str, dict[int, int]]:
        """Where a group stands now, by topic and partition; it may be about to become durable."""
        found: dict[str, dict[int, int]] = {}
        for partition in self._partitions.of_group(group_id):
            found.setdefault(partition.topic, {})[partition.place.partition] = partition.start_offset
        return found

    def _begun(self, group_id: str) -> dict[str, list[int]]:
        begun: dict[str, list[int]] = {}
        for partition in self._partitions.of_group(group_id):
            begun.setdefault(partition.topic, []).append(partition.place.partition)
        return {name: sorted(indexes) for name, indexes in sorted(begun.items())}

    def _topic_standing(self, group_id: str, name: str, indexes: Sequence[int]) -> TopicStanding:
        topic = self._topics.get(name)
        if topic is None:
            return TopicStanding(name, None, [Standing(index) for index in indexes])
        return TopicStanding(name, topic.topic_id, [self._standing(group_id, topic, index) for index in indexes])

    def _standing(self, group_id: str, topic: Topic, index: int) -> Standing:
        if not 0 <= index < len(topic.partitions):
            return Standing(index, error=UnknownTopic(_NOT_HERE))
        partition = self._partitions.get(Place(group_id, topic.topic_id, index))
        if partition is None:
            return Standing(index)
        return Standing(index, partition.start_offset, partition.log.leader_epoch, partition.lag)

    @audited("group.offsets.move", _moved)
    async def alter(
        self, group_id: str, wanted: Mapping[str, Mapping[int, int | None]]
    ) -> dict[str, tuple[UUID | None, dict[int, LogError | None]]]:
        """Moves partitions to offsets, or forgets them (None), in one step; makes the group if one of the topics is there.
        Raises InvalidGroupId, GroupNotFound, GroupNotEmpty and StorageFailed."""
        group = self._group_to_move(group_id, begins=any(self._topics.get(name) is not None for name in wanted))
        if group is not None:
            _check_empty(group)
        answers: dict[str, tuple[UUID | None, dict[int, LogError | None]]] = {}
        for name, offsets in wanted.items():
            topic = self._topics.get(name)
            errors: dict[int, LogError | None] = {}
            for index, offset in offsets.items():
                errors[index] = self._move(group_id, topic, index, offset)
            answers[name] = (None if topic is None else topic.topic_id), errors
        await self._store.kept()
        return answers

    def _move(self, group_id: str, topic: Topic | None, index: int, offset: int | None) -> LogError | None:
        if topic is None:
            return UnknownTopic(_NOT_HERE)
        try:
            self._partitions.move(Place(group_id, topic.topic_id, index), offset)
        except UnknownTopic:
            return UnknownTopic(_NOT_HERE)
        return None

    @audited("group.offsets.delete", _forgotten)
    def delete(self, group_id: str, names: Sequence[str]) -> dict[str, tuple[UUID | None, LogError | None]]:
        """Forgets topics; durable after `Log.synced`. Raises GroupNotFound, GroupNotEmpty and StorageFailed."""
        _check_empty(self._find_group(group_id))
        answers: dict[str, tuple[UUID | None, LogError | None]] = {}
        for name in names:
            topic = self._topics.get(name)
            found = [partition for partition in self._partitions.of_group(group_id) if partition.topic == name]
            self._partitions.forget(found)
            missing = UnknownTopic(_NOT_HERE if topic is None else "There is no offset information to delete.")
            answers[name] = (None if topic is None else topic.topic_id), None if found else missing
        return answers


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise GroupNotEmpty("The group is not empty.")
