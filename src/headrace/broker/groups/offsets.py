"""The positions that groups have committed: one for each group, topic and partition.

They belong to groups of every kind. What a transaction would commit stands beside them, in `pending`, not in them: only
offsets that hold are here.

A commit is visible to `fetch` at once and acknowledged when durable, so a fetch waits for the sync as well: nobody
reads a position that a crash could take back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from headrace.broker.groups.errors import GroupError, OffsetMetadataTooLarge, SubscribedToTopic
from headrace.broker.groups.group import Group
from headrace.broker.groups.pending import PendingOffsets
from headrace.broker.groups.records import CommittedOffset
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.store import GroupStore, encoded_offsets
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.port import Log

_FIRST_MS, _LAST_MS = -(1 << 63), (1 << 63) - 1  # what a timestamp can be

TopicPartition = tuple[str, int]

STEP = 500  # positions that are made ready before others have their turn


@dataclass(frozen=True, slots=True)
class NewOffset:
    """One position that somebody wants to commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Positions that are to be changed together, and their rows in the table."""

    rows: Mapping[TopicPartition, CommittedOffset | None]
    encoded: Mapping[bytes, bytes | None]


class Offsets:
    def __init__(self, store: GroupStore, clock: Clock, settings: GroupSettings, log: Log) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.pending = PendingOffsets(log, lambda: store.table, self._apply)

    def load(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self._by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def get(self, group_id: str, topic: str, partition: int, topic_id: UUID | None = None) -> CommittedOffset | None:
        """With a topic id, a position in an earlier topic of the same name does not count."""
        committed = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
        if committed is None or _other_topic(committed.topic_id, topic_id):
            return None
        return committed

    def group_ids(self) -> Iterable[str]:
        return self._by_group.keys()

    def all_of(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._by_group.get(group_id, {})

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        return [(topic, index) for topic, by_index in self.all_of(group_id).items() for index in by_index]

    def commit(
        self, group_id: str, offsets: Sequence[NewOffset], retention_ms: int | None = None, producer_id: int | None = None
    ) -> list[GroupError | None]:
        """One answer for each; those without error hold once the store has synced, or, when they belong to a producer's
        transaction, once that is committed. Raises StorageFailed."""
        now_ms = self._clock.now_ms()
        expires_ms = None if retention_ms is None else max(_FIRST_MS, min(now_ms + retention_ms, _LAST_MS))
        rows: dict[TopicPartition, CommittedOffset] = {}
        answers: list[GroupError | None] = []
        for new in offsets:
            metadata = new.metadata or ""
            if len(metadata) > self._settings.offset_metadata_max_bytes:
                answers.append(OffsetMetadataTooLarge())
                continue
            rows[new.topic, new.partition] = CommittedOffset(
                new.offset, new.leader_epoch, metadata, now_ms, expires_ms, new.topic_id
            )
            answers.append(None)
        if producer_id is not None:
            self.pending.put(producer_id, group_id, rows)
        else:
            self._change(group_id, rows)
        return answers

    async def prepare(self, group_id: str, offsets: Sequence[NewOffset], forgotten: Iterable[TopicPartition]) -> Prepared:
        """What `move` takes, made `STEP` at a time. Raises OffsetMetadataTooLarge and GroupTooLarge."""
        now_ms = self._clock.now_ms()
        rows: dict[TopicPartition, CommittedOffset | None] = {}
        encoded: dict[bytes, bytes | None] = {}
        for first in range(0, len(offsets), STEP):
            step: dict[TopicPartition, CommittedOffset | None] = {}
            for new in offsets[first : first + STEP]:
                metadata = new.metadata or ""
                if len(metadata) > self._settings.offset_metadata_max_bytes:
                    raise OffsetMetadataTooLarge(f"more than {self._settings.offset_metadata_max_bytes} of metadata")
                step[new.topic, new.partition] = CommittedOffset(
                    new.offset, new.leader_epoch, metadata, now_ms, None, new.topic_id
                )
            rows.update(step)
            encoded.update(encoded_offsets(group_id, step))
            await asyncio.sleep(0)
        gone: dict[TopicPartition, CommittedOffset | None] = {
            (topic, index): None
            for topic, index in forgotten
            if self.pending.unstable(group_id, topic, index) or self.get(group_id, topic, index) is not None
        }
        return Prepared(rows | gone, encoded | encoded_offsets(group_id, gone))

    def move(self, group_id: str, prepared: Prepared) -> None:
        """All of it as one batch of the table, or nothing. Raises StorageFailed."""
        if prepared.rows:
            self._store.put_rows(prepared.encoded)
            self.pending.overtaken(group_id, prepared.rows)
            self._apply(group_id, prepared.rows)

    def delete(self, group: Group, partitions: Iterable[TopicPartition]) -> list[GroupError | None]:
        rows: dict[TopicPartition, CommittedOffset | None] = {}
        answers: list[GroupError | None] = []
        for topic, partition in partitions:
            if group.subscribes_to(topic):
                answers.append(SubscribedToTopic())
                continue
            answers.append(None)
            pending = self.pending.unstable(group.group_id, topic, partition)
            if pending or self.get(group.group_id, topic, partition) is not None:
                rows[topic, partition] = None
        self._change(group.group_id, rows)
        return answers

    def forget_group(self, group_id: str) -> None:
        """The rows are gone already."""
        self._by_group.pop(group_id, None)
        self.pending.forget_group(group_id)

    def forget_topics(self, names: Iterable[str]) -> None:
        gone = frozenset(names)
        for group_id, by_topic in tuple(self._by_group.items()):
            rows: dict[TopicPartition, CommittedOffset | None] = {
                (topic, index): None for topic in gone & by_topic.keys() for index in by_topic[topic]
            }
            self._change(group_id, rows)
        self.pending.forget_topics(gone)

    def expire(self, group: Group) -> None:
        """Drops what offsets.retention.minutes, or the client's own retention, no longer covers."""
        self._change(group.group_id, dict.fromkeys(self._expired(group)))

    def _expired(self, group: Group) -> Iterator[TopicPartition]:
        now_ms = self._clock.now_ms()
        for topic, by_index in self.all_of(group.group_id).items():
            if group.subscribes_to(topic):
                continue
            for index, committed in by_index.items():
                idle_since_ms = group.offsets_idle_since(committed.commit_timestamp_ms)
                if idle_since_ms is None:
                    return
                expires_ms = committed.expire_timestamp_ms
                if expires_ms is None:
                    expires_ms = idle_since_ms + self._settings.offsets_retention_ms
                if now_ms >= expires_ms and not self.pending.unstable(group.group_id, topic, index):
                    yield topic, index

    def _change(self, group_id: str, rows: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        if not rows:
            return
        self._store.put_offsets(group_id, rows)
        self.pending.overtaken(group_id, rows)
        self._apply(group_id, rows)

    def _apply(self, group_id: str, rows: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """The rows are in the table."""
        by_topic = self._by_group.setdefault(group_id, {})
        for (topic, partition), committed in rows.items():
            if committed is not None:
                by_topic.setdefault(topic, {})[partition] = committed
                continue
            by_index = by_topic.get(topic, {})
            by_index.pop(partition, None)
            if not by_index:
                by_topic.pop(topic, None)
        if not by_topic:
            del self._by_group[group_id]


def _other_topic(committed: UUID | None, asked: UUID | None) -> bool:
    return committed is not None and asked is not None and committed != asked
