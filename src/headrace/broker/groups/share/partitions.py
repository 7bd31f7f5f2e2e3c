"""All share partitions: found, begun, moved and forgotten.

A share partition begins with the first fetch of it, where `share.auto.offset.reset` says, and that is kept at once: unlike in
Kafka, a group that has read nothing yet does not lose its place to a restart. It ends with its topic or with its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from headrace.broker.group_config_defs import duration_ms
from headrace.broker.groups.share.dead_letters import DeadLetters
from headrace.broker.groups.share.partition import PartitionSettings, SharePartition
from headrace.broker.groups.share.state_rows import Place, State
from headrace.broker.groups.share.state_store import Forgotten, StateStore
from headrace.broker.topic_errors import UnknownTopicId
from headrace.clock import Clock
from headrace.log.errors import UnknownTopic
from headrace.log.port import Log, Partition, Topic

EARLIEST, LATEST = "earliest", "latest"


class SharePartitions:
    def __init__(
        self,
        log: Log,
        clock: Clock,
        store: StateStore,
        dead_letters: DeadLetters,
        settings: Callable[[str], PartitionSettings],
        offset_reset: Callable[[str], str],
    ) -> None:
        self._log = log
        self._clock = clock
        self._store = store
        self._dead_letters = dead_letters
        self._settings = settings
        self._offset_reset = offset_reset
        self._partitions: dict[Place, SharePartition] = {}
        self._by_group: dict[str, dict[Place, SharePartition]] = {}

    def load(self) -> None:
        """Brings back what was kept. Of topics that are gone nothing is."""
        gone = []
        for place, state in self._store.rows():
            topic = self._log.topic_by_id(place.topic_id)
            if topic is None or place.partition >= len(topic.partitions):
                gone.append(place)
                continue
            self._begin(place, topic.name, topic.partitions[place.partition], state)
        if gone:
            self._store.remove(gone)
        for partition in self._partitions.values():
            if next(partition.window.waiting_for_copy(), None) is not None:
                self._dead_letters.add(partition)

    def close(self) -> None:
        for partition in self._partitions.values():
            partition.close()

    # -- finding

    def get(self, place: Place) -> SharePartition | None:
        return self._partitions.get(place)

    def of_group(self, group_id: str) -> Iterator[SharePartition]:
        return iter(self._by_group.get(group_id, {}).values())

    def all(self) -> Iterator[SharePartition]:
        return iter(self._partitions.values())

    def check(self, topic_id: UUID, index: int) -> Partition:
        """Raises UnknownTopicId and UnknownTopic."""
        return self._find(topic_id, index)[1]

    async def find_or_begin(self, place: Place) -> SharePartition:
        """Raises UnknownTopicId, UnknownTopic, and StorageError when the log can't be read."""
        found = self._partitions.get(place)
        if found is not None:
            return found
        topic, log = self._find(place.topic_id, place.partition)
        offset = await self._first_offset(place.group_id, log)
        found = self._partitions.get(place)  # somebody else may have come while this one looked
        if found is None:
            found = self._begin(place, topic.name, log, State(offset, ()))
            self._store.changed(found)
        return found

    async def _first_offset(self, group_id: str, log: Partition) -> int:
        reset = self._offset_reset(group_id)
        if reset == EARLIEST:
            return log.start_offset
        if reset == LATEST:
            return log.high_watermark
        found = await log.offset_at(self._clock.now_ms() - duration_ms(reset))
        return log.high_watermark if found is None else found.offset

    def _find(self, topic_id: UUID, index: int) -> tuple[Topic, Partition]:
        topic = self._log.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(f"There is no topic with id {topic_id}")
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopic(f"{topic.name} has no partition {index}")
        return topic, topic.partitions[index]

    def _begin(self, place: Place, topic: str, log: Partition, state: State) -> SharePartition:
        group_id = place.group_id
        partition = SharePartition(place, topic, log, self._store, self._clock, lambda: self._settings(group_id), state=state)
        partition.on_dead_letters = self._dead_letters.add
        self._partitions[place] = partition
        self._by_group.setdefault(group_id, {})[place] = partition
        return partition

    # -- moving and forgetting

    def move(self, place: Place, offset: int | None) -> None:
        """Begins anew at an offset, or without one is forgotten; durable once the store has kept it. All that are moved without
        awaiting in between are kept together. Raises UnknownTopicId and UnknownTopic."""
        topic, log = self._find(place.topic_id, place.partition)
        old = self._partitions.get(place)
        if old is not None:
            self._dead_letters.forget(old)
            old.close()
        if offset is None:
            self._remove(place)
            self._store.changed(Forgotten(place))
            return
        epoch = old.state_epoch + 1 if old is not None else 0
        bounded = min(max(offset, log.start_offset), log.high_watermark)
        self._store.changed(self._begin(place, topic.name, log, State(bounded, (), state_epoch=epoch)))

    def forget(self, partitions: Iterable[SharePartition]) -> None:
        """Durable after `Log.synced`. Raises StorageFailed."""
        gone = list(partitions)
        if not gone:
            return
        self._store.remove([partition.place for partition in gone])
        for partition in gone:
            self._remove(partition.place)
            self._dead_letters.forget(partition)
            partition.close()

    def _remove(self, place: Place) -> None:
        self._partitions.pop(place, None)
        of_group = self._by_group.get(place.group_id, {})
        of_group.pop(place, None)
        if not of_group:
            self._by_group.pop(place.group_id, None)

    def release(self, group_id: str, member_id: str) -> None:
        """What this member holds, wherever that is."""
        for partition in tuple(self.of_group(group_id)):
            partition.release(member_id)
