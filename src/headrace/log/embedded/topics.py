"""The topics of one folder: created, grown, configured and deleted through the table of definitions.

A change is written to the table first and takes effect in memory at once; whoever asked for it is answered after the sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.log.embedded.definitions import Definition
from headrace.log.embedded.layout import topic_folder
from headrace.log.embedded.partition import EmbeddedPartition
from headrace.log.embedded.table import EmbeddedTable
from headrace.log.errors import InvalidConfig, InvalidPartitions, TopicExists, UnknownTopic
from headrace.log.port import Durability
from headrace.log.topic_config import TopicConfig, resolve

if TYPE_CHECKING:
    from headrace.log.embedded.engine import EmbeddedLog


class EmbeddedTopic:
    def __init__(self, log: EmbeddedLog, definition: Definition, resolved: TopicConfig) -> None:
        self._log = log
        self.definition = definition
        self.name = definition.name
        self.topic_id = definition.topic_id
        self.internal = definition.internal
        self.folder = topic_folder(definition.name, definition.topic_id)
        self.resolved = resolved
        self.partitions: list[EmbeddedPartition] = []
        self.grow()

    @property
    def config(self) -> Mapping[str, str]:
        return self.definition.config

    def grow(self, sealed: str = "") -> None:
        for index in range(len(self.partitions), self.definition.partitions):
            folder = f"{self.folder}/{index}"
            partition = EmbeddedPartition(self._log, self.name, self.topic_id, index, folder, self.resolved)
            partition.sealed = sealed
            self.partitions.append(partition)

    def reconfigure(self, definition: Definition, resolved: TopicConfig) -> None:
        self.definition = definition
        self.resolved = resolved
        for partition in self.partitions:
            partition.configure(resolved)


class Topics:
    def __init__(self, log: EmbeddedLog, defaults: Mapping[str, str], random_bytes: Callable[[int], bytes]) -> None:
        self._log = log
        self._random_bytes = random_bytes
        self.defaults = dict(defaults)
        self.by_name: dict[str, EmbeddedTopic] = {}
        self.by_id: dict[UUID, EmbeddedTopic] = {}
        self.definitions: EmbeddedTable

    def install(self, definition: Definition) -> EmbeddedTopic:
        """Makes a topic known whose definition is written."""
        topic = EmbeddedTopic(self._log, definition, self.resolve(definition))
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        return topic

    def existing(self, name: str) -> EmbeddedTopic:
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopic(name)
        return topic

    def resolve(self, definition: Definition) -> TopicConfig:
        config = resolve(definition.config, {} if definition.internal else self.defaults)
        if definition.in_memory and config.durability is not Durability.MEMORY:
            return replace(config, durability=Durability.MEMORY)
        if not definition.in_memory and config.durability is Durability.MEMORY:
            return replace(config, durability=Durability.FLUSH)
        return config

    def set_defaults(self, defaults: Mapping[str, str]) -> None:
        """Server-wide settings changed: topics that set nothing of their own follow."""
        self.defaults = dict(defaults)
        for topic in self.by_name.values():
            topic.reconfigure(topic.definition, self.resolve(topic.definition))

    def create(
        self, name: str, partitions: int, config: Mapping[str, str], topic_id: UUID | None, internal: bool
    ) -> EmbeddedTopic:
        if name in self.by_name:
            raise TopicExists(name)
        if partitions < 1:
            raise InvalidPartitions("a topic needs at least one partition")
        topic_id = topic_id or UUID(bytes=self._random_bytes(16), version=4)
        in_memory = resolve(config, {} if internal else self.defaults).durability is Durability.MEMORY
        definition = Definition(name, topic_id, partitions, dict(config), internal, in_memory)
        self.resolve(definition)  # a wrong setting is found before anything is written
        self.definitions.put(dict([definition.row()]))
        return self.install(definition)

    def grow(self, name: str, total: int, sealed: str = "") -> None:
        topic = self.existing(name)
        old = topic.definition
        if total <= old.partitions:
            raise InvalidPartitions(f"{name} has {old.partitions} partitions already")
        definition = replace(old, partitions=total)
        self.definitions.put(dict([definition.row()]))
        topic.definition = definition
        topic.grow(sealed)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        topic = self.existing(name)
        old = topic.definition
        definition = replace(old, config=dict(config))
        wanted = resolve(definition.config, {}).durability
        if "durability" in config and (wanted is Durability.MEMORY) != old.in_memory:
            raise InvalidConfig("a topic can't be moved between memory and disk: create another one")
        resolved = self.resolve(definition)
        self.definitions.put(dict([definition.row()]))
        topic.reconfigure(definition, resolved)

    def delete(self, name: str) -> EmbeddedTopic:
        """Forgets a topic; its files are the caller's to remove, once that is durable."""
        topic = self.existing(name)
        self.definitions.put({name.encode(): None})
        del self.by_name[name], self.by_id[topic.topic_id]
        for partition in topic.partitions:
            partition.broken = f"{name} was deleted"
        return topic
