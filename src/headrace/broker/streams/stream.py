"""A stream as readers and writers see it: always current, and changed only by `Streams` once a change is durable.

To look up the open shard of a hash key and to append to its partition in one turn of the event loop is atomic: a reshard seals
the parents' partitions in one turn, too. Whoever meets PartitionSealed waits for `settled` and looks again.

A topic that nobody made as a stream is seen as one all the same (`stored` is False): its partitions are open shards with equal
ranges, and what Kafka does to it shows at once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.broker.streams.changes import Changes
from headrace.broker.streams.definition import EncryptionType, Mode, StreamDefinition
from headrace.broker.streams.names import stream_arn, stream_id
from headrace.broker.streams.retention import shown_hours
from headrace.broker.streams.shard import Shard, parse_shard_id, uniform_shards
from headrace.log.topic_config import resolve

if TYPE_CHECKING:
    from headrace.broker.settings import Settings
    from headrace.broker.streams.consumers import Consumer
    from headrace.log.port import Partition, Topic
    from headrace.log.topic_config import TopicConfig


class Status(StrEnum):
    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"


class Stream:
    __slots__ = (
        "__weakref__",
        "_children",
        "_open",
        "_sealing",
        "_settings",
        "_shards",
        "_starts",
        "account",
        "arn",
        "changed",
        "consumers",
        "definition",
        "gone",
        "lock",
        "max_record_bytes",
        "name",
        "region",
        "status",
        "stored",
        "stream_id",
        "topic",
    )

    def __init__(self, topic: Topic, definition: StreamDefinition, shards: Sequence[Shard] | None, settings: Settings) -> None:
        self.topic = topic
        self.account, self.region, self.name = definition.account, definition.region, definition.name
        self.arn = stream_arn(self.account, self.region, self.name)
        self.stream_id = stream_id(topic.topic_id)
        self.status = Status.ACTIVE
        self.gone = False  # its topic was deleted, or belongs to another stream now
        self.stored = shards is not None
        self.changed = Changes()  # of shards, status, or that it is gone
        self.consumers: dict[str, Consumer] = {}
        self.lock = asyncio.Lock()  # held by who changes it
        self._settings = settings
        self._sealing: asyncio.Event | None = None
        self.define(definition)
        self.set_shards(uniform_shards(len(topic.partitions), 0) if shards is None else shards)

    def __repr__(self) -> str:
        return f"<stream {self.account}/{self.region}/{self.name} on {self.topic.name}>"

    # --- shards

    @property
    def shards(self) -> Sequence[Shard]:
        """All there ever were, by index."""
        if not self.stored:
            self._follow_topic()
        return self._shards

    @property
    def open_shards(self) -> Sequence[Shard]:
        """By their first hash key."""
        if not self.stored:
            self._follow_topic()
        return self._open

    def shard_for(self, hash_key: int) -> Shard:
        """The open one."""
        if not self.stored:
            self._follow_topic()
        return self._open[bisect_right(self._starts, hash_key) - 1]

    def partition(self, shard: Shard) -> Partition:
        return self.topic.partitions[shard.index]

    def children(self, shard: Shard) -> list[Shard]:
        """What it was split into, or the one that it was merged into."""
        return [self._shards[index] for index in self._children.get(shard.index, ())]

    def shard(self, shard_id: str) -> Shard | None:
        index = parse_shard_id(shard_id)
        shards = self.shards
        return None if index is None or index >= len(shards) else shards[index]

    def is_expired(self, shard: Shard, now_ms: int) -> bool:
        """Whether retention has taken all that it held: it is closed for that long."""
        if shard.expired:
            return True
        retention_ms = self.retention_ms
        return shard.closed_ms is not None and retention_ms >= 0 and shard.closed_ms + retention_ms <= now_ms

    async def settled(self) -> None:
        """Returns once no reshard is between sealing the parents and opening the children."""
        while self._sealing is not None:
            await self._sealing.wait()

    def _follow_topic(self) -> None:
        if len(self._shards) != len(self.topic.partitions):
            self.set_shards(uniform_shards(len(self.topic.partitions), 0))
            self.changed.tell()

    # --- what is known of it

    @property
    def mode(self) -> Mode:
        return self.definition.mode

    @property
    def created_ms(self) -> int:
        return self.definition.created_ms

    @property
    def encryption_type(self) -> EncryptionType:
        return self.definition.encryption_type

    @property
    def key_id(self) -> str | None:
        return self.definition.key_id

    @property
    def max_record_kib(self) -> int:
        return self.definition.max_record_kib

    @property
    def warm_mibps(self) -> int | None:
        return self.definition.warm_mibps

    @property
    def distribution(self) -> str:
        return self.definition.distribution

    @property
    def monitoring(self) -> Sequence[str]:
        return self.definition.monitoring

    @property
    def tags(self) -> Mapping[str, str]:
        return self.definition.tags

    @property
    def policy(self) -> str | None:
        return self.definition.policy

    @property
    def retention_ms(self) -> int:
        """-1: for ever."""
        given = self.topic.config.get("retention.ms")
        return int(given) if given is not None else self._topic_config.retention_ms

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that its topic takes."""
        given = self.topic.config.get("max.message.bytes")
        return int(given) if given is not None else self._topic_config.max_message_bytes

    @property
    def _topic_config(self) -> TopicConfig:
        return resolve(self.topic.config, self._settings.topic_defaults)

    @property
    def retention_hours(self) -> int:
        return shown_hours(self.retention_ms)

    # --- changed by Streams alone

    def define(self, definition: StreamDefinition) -> None:
        self.definition = definition
        self.max_record_bytes = definition.max_record_kib * 1024

    def set_shards(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._open = sorted((shard for shard in shards if shard.closed_at is None), key=lambda shard: shard.first_hash)
        self._starts = [shard.first_hash for shard in self._open]
        self._children: dict[int, list[int]] = {}
        for shard in shards:
            for parent in shard.parents:
                self._children.setdefault(parent, []).append(shard.index)

    def set_status(self, status: Status) -> None:
        if status is not self.status:
            self.status = status
            self.changed.tell()

    def begin_sealing(self) -> None:
        self._sealing = asyncio.Event()

    def end_sealing(self) -> None:
        if self._sealing is not None:
            self._sealing.set()
            self._sealing = None

    def forget(self) -> None:
        self.gone = True
        self.status = Status.DELETING
        for consumer in self.consumers.values():
            consumer.gone = True
        self.end_sealing()
        self.changed.tell()
