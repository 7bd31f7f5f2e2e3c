"""Topic administration: names, limits and settings are checked here, partitions and copies in `topic_layout`, and the log does
and keeps the rest.

The rules and their texts are those of Apache Kafka 4.3 on one node. Whoever creates, deletes or alters topics on behalf
of a client goes through here, whatever the protocol. New topics are made side by side, so that a request for a thousand
of them shares the log's syncs: a name and its partitions are reserved before the log is asked. Everything else changes
one at a time, under a lock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from uuid import UUID

from headrace.broker.audit import About, audited
from headrace.broker.config_entries import ConfigEntry, topic_entries
from headrace.broker.dynamic_settings import DynamicSettings
from headrace.broker.settings import Settings
from headrace.broker.topic_errors import (
    InvalidRequest,
    PolicyViolation,
    TopicDeletionDisabled,
    UnknownTopicId,
)
from headrace.broker.topic_layout import check_growth, check_layout, planned_partitions
from headrace.broker.topic_names import TopicNames
from headrace.dataclass import dataclass
from headrace.log.errors import InvalidConfig, InvalidName, TopicExists, UnknownTopic
from headrace.log.port import Log, Topic
from headrace.log.topic_config import validate

HIDDEN_PREFIX = "__headrace_"
"""Tables of our own: no protocol shows them, and no client may create such a name."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Names that Kafka clients know as internal."""

MAX_NAME_LENGTH = 249
MAX_DESCRIBED = 1000  # different settings of topics whose description is remembered
NO_TOPIC_ID = UUID(int=0)

AlterConfig = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From what is set to what shall be set."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_SAME_METRIC = str.maketrans(".", "_")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as somebody wants it. -1 stands for the server's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()  # partition, nodes
    config: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    topic_id: UUID
    partitions: int
    replication_factor: int
    config: tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class _Reservation:
    partitions: int
    ended: asyncio.Event


def check_name(name: str) -> None:
    """Kafka's rules for the name of a topic; raises InvalidName."""
    if not name:
        raise InvalidName("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidName(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidName(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )


def _new(topics: Topics, new: NewTopic, *, validate_only: bool = False, topic_id: UUID | None = None) -> About | None:
    if validate_only:
        return None
    return About(new.name, {"partitions": planned_partitions(new, topics._settings), "config": new.config})


def _named(topics: Topics, name: str, *_: object, validate_only: bool = False, **__: object) -> About | None:
    return None if validate_only else About(name)


class Topics:
    def __init__(self, log: Log, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._changes = asyncio.Lock()
        self._reserved: dict[str, _Reservation] = {}  # topics that are being made
        self._room = 0, 0  # max.partitions, and how many more there is room for at least: they are counted when that is used up
        self._colliding: dict[str, set[str]] | None = None
        self._described: dict[frozenset[tuple[str, str]], tuple[ConfigEntry, ...]] = {}
        settings.subscribe(self._described.clear)
        self.dynamic_settings = DynamicSettings(log, settings)
        self.names = TopicNames(log, HIDDEN_PREFIX)
        # Called with the name of a topic that is new, has got more partitions, is gone.
        self.on_create: list[Callable[[str], None]] = []
        self.on_grow: list[Callable[[str], None]] = []
        self.on_delete: list[Callable[[str], None]] = []
        # Asked before somebody adds partitions to a topic; raises PolicyViolation if that is not for everybody.
        self.before_growth: list[Callable[[Topic], None]] = []

    async def start(self) -> None:
        await self.dynamic_settings.start()

    # -- looking

    def get(self, name: str) -> Topic | None:
        """A topic that clients may see."""
        return None if name.startswith(HIDDEN_PREFIX) else self._log.topics().get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        topic = self._log.topic_by_id(topic_id)
        return None if topic is None or topic.name.startswith(HIDDEN_PREFIX) else topic

    def all(self) -> Iterator[Topic]:
        """All topics that clients may see."""
        return (topic for name, topic in self._log.topics().items() if not name.startswith(HIDDEN_PREFIX))

    def is_internal(self, name: str) -> bool:
        """Whether a topic of this name is, or would be, internal to a Kafka client."""
        topic = self._log.topics().get(name)
        return name in INTERNAL_TOPICS if topic is None else is_internal(topic)

    def config(self, name: str) -> tuple[ConfigEntry, ...]:
        """The settings of a topic: the same object for topics that set the same. Raises UnknownTopic."""
        return self._describe(self._existing(name).config)

    def _describe(self, config: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
        key = frozenset(config.items())
        found = self._described.get(key)
        if found is None:
            if len(self._described) >= MAX_DESCRIBED:
                self._described.clear()
            found = self._described[key] = tuple(topic_entries(config, self._settings))
        return found

    # -- creating

    @audited("topic.create", _new)
    async def create(self, new: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Durable when it returns. Raises TopicExists, InvalidName, InvalidConfig, InvalidPartitions,
        InvalidReplicationFactor, InvalidReplicaAssignment, InvalidRequest, PolicyViolation, StorageError."""
        partitions, config = self._check_new(new)
        topic_id = NO_TOPIC_ID
        if not validate_only:
            reservation = self._reserved[new.name] = _Reservation(partitions, asyncio.Event())
            try:
                topic_id = (await self._log.create_topic(new.name, partitions, config)).topic_id
            finally:
                del self._reserved[new.name]
                reservation.ended.set()
            self._created(new.name)
        return CreatedTopic(topic_id, partitions, 1, self._describe(config))

    @audited("topic.create", _new)
    def define(self, new: NewTopic, *, topic_id: UUID | None = None) -> Topic:
        """The same at once: durable after `Log.synced`."""
        partitions, config = self._check_new(new)
        topic = self._log.define_topic(new.name, partitions, config, internal=False, topic_id=topic_id)
        self._created(new.name)
        return topic

    def _created(self, name: str) -> None:
        self._collisions().setdefault(name.translate(_SAME_METRIC), set()).add(name)
        self.names.came(name)
        for created in self.on_create:
            created(name)

    async def auto_create(self, name: str) -> Topic:
        """Creates a topic because somebody asked for it. Raises UnknownTopic when the server doesn't do that."""
        topic = self.get(name)
        if topic is not None:
            return topic
        check_name(name)
        if not self._settings.get_bool("auto.create.topics.enable") or self.is_internal(name):
            raise UnknownTopic(f"There is no topic {name}")
        try:
            await self.create(NewTopic(name))
        except TopicExists:  # somebody else was quicker, and may not be done
            reservation = self._reserved.get(name)
            if reservation is not None:
                await reservation.ended.wait()
        return self._existing(name)

    @audited("topic.add_partitions", _named)
    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        sealed: str = "",
    ) -> None:
        """Grows a topic to `total` partitions. With `sealed` it is the topic's owner who asks, and the new ones are sealed.
        Raises UnknownTopic, InvalidPartitions, InvalidReplicaAssignment, PolicyViolation, StorageError."""
        async with self._changes:
            topic = self._existing(name)
            self._check_not_internal(topic)
            if not sealed:
                for check in self.before_growth:
                    check(topic)
            now = len(topic.partitions)
            check_growth(name, now, total, assignments, self._settings)
            self._check_room(total - now)
            if not validate_only:
                if sealed:
                    await self._log.add_partitions(name, total, sealed=sealed)
                else:
                    await self._log.add_partitions(name, total)
                for grown in self.on_grow:
                    grown(name)

    # -- deleting

    @audited("topic.delete", _named)
    async def delete(self, name: str, *, topic_id: UUID | None = None) -> None:
        """With `topic_id` only that one, and not another that has its name since. Raises UnknownTopic, TopicDeletionDisabled,
        StorageError."""
        async with self._changes:
            self._check_deletion(name)
            if topic_id is not None and self._existing(name).topic_id != topic_id:
                raise UnknownTopic("This server does not host this topic-partition.")
            await self._log.delete_topic(name)
        self._deleted(name)

    @audited("topic.delete", _named)
    def drop(self, name: str) -> None:
        """The same at once: durable after `Log.synced`."""
        self._check_deletion(name)
        self._log.drop_topic(name)
        self._deleted(name)

    def _check_deletion(self, name: str) -> None:
        if not self._settings.get_bool("delete.topic.enable"):
            raise TopicDeletionDisabled("Topic deletion is disabled.")
        self._check_not_internal(self._existing(name))

    def _deleted(self, name: str) -> None:
        same = self._collisions().get(name.translate(_SAME_METRIC))
        if same is not None:
            same.discard(name)
        self.names.went(name)
        for deleted in self.on_delete:
            deleted(name)

    async def delete_by_id(self, topic_id: UUID) -> str:
        """The same; returns the name. Raises UnknownTopicId."""
        topic = self.by_id(topic_id)
        if topic is None:
            raise UnknownTopicId("This server does not host this topic ID.")
        await self.delete(topic.name)
        return topic.name

    # -- altering

    @audited("topic.configure", _named)
    async def configure(self, name: str, alter: AlterConfig, *, validate_only: bool = False) -> None:
        """Replaces what is set for a topic by what `alter` makes of it; takes effect at once. Raises InvalidName,
        InvalidRequest, InvalidConfig, UnknownTopic, StorageError, and whatever `alter` raises."""
        async with self._changes:
            if not name:
                raise InvalidRequest("Default topic resources are not allowed.")
            check_name(name)
            topic = self.get(name)
            before = {} if topic is None else dict(topic.config)
            config = dict(alter(before))
            validate(config, self._settings.topic_defaults, archive=self._archive, before=before)
            if topic is None:
                raise UnknownTopic(f"The topic '{name}' does not exist.")
            self._check_not_internal(topic)
            if not validate_only and before != config:
                await self._log.configure_topic(name, config)

    # -- rules

    def _existing(self, name: str) -> Topic:
        topic = self.get(name)
        if topic is None:
            raise UnknownTopic("This server does not host this topic-partition.")
        return topic

    def _check_not_internal(self, topic: Topic) -> None:
        if topic.internal:
            raise InvalidName(f"The topic {topic.name} is internal: the server itself keeps its state in it.")

    def _check_new(self, new: NewTopic) -> tuple[int, dict[str, str]]:
        self._check_new_name(new.name)
        config = self._check_config(new.config)
        partitions = check_layout(new, self._settings)
        self._check_room(partitions)
        return partitions, config

    def _check_new_name(self, name: str) -> None:
        check_name(name)
        if name in self._log.topics() or name in self._reserved:
            raise TopicExists(f"Topic '{name}' already exists.")
        if name.startswith(HIDDEN_PREFIX):
            raise InvalidName(f"Topic name is invalid: names that begin with '{HIDDEN_PREFIX}' are the server's own")
        if "." in name or "_" in name:
            # Kafka's metrics write '.' as '_', so two such topics could not be told apart
            metric = name.translate(_SAME_METRIC)
            same = self._collisions().get(metric) or {
                other for other in self._reserved if other.translate(_SAME_METRIC) == metric
            }
            if same:
                raise InvalidName(f"Topic '{name}' collides with existing topic: {min(same)}")

    def _collisions(self) -> dict[str, set[str]]:
        if self._colliding is None:
            self._colliding = {}
            for name in self._log.topics():
                self._colliding.setdefault(name.translate(_SAME_METRIC), set()).add(name)
        return self._colliding

    def _check_config(self, config: Mapping[str, str | None]) -> dict[str, str]:
        nulls = [name for name, text in config.items() if text is None]
        if nulls:
            raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
        texts = {name: text for name, text in config.items() if text is not None}
        validate(texts, self._settings.topic_defaults, archive=self._archive)
        return texts

    @property
    def _archive(self) -> bool:
        return self._settings.get_bool("remote.log.storage.system.enable")

    def _check_room(self, more: int) -> None:
        limit = self._settings.get_int("max.partitions")
        if more > limit:
            raise PolicyViolation(f"{more} partitions are more than max.partitions ({limit}).")
        if more > self._room[1] or limit != self._room[0]:
            now = sum(len(topic.partitions) for topic in self.all()) + sum(
                reservation.partitions for reservation in self._reserved.values()
            )
            if now + more > limit:
                raise PolicyViolation(
                    f"There are {now} partitions; {more} more would be above the server's max.partitions ({limit})."
                )
            self._room = limit, limit - now
        self._room = limit, self._room[1] - more


def is_internal(topic: Topic) -> bool:
    return topic.internal or topic.name in INTERNAL_TOPICS
