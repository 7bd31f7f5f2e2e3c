"""The topics as groups see them: names, ids and how many partitions, and a number that grows when any of it changes.

A group remembers the number it has seen; a heartbeat that finds another one looks whether the group's own topics changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from uuid import UUID

from headrace.broker.topics import HIDDEN_PREFIX
from headrace.log.port import Log, Topic


class TopicCatalog:
    def __init__(self, log: Log) -> None:
        self._log = log
        self.version = 1
        self.created_version = 1  # as of the last new topic; only those can match an expression that they didn't match

    def changed(self, *, created: bool = False) -> None:
        """A topic is new, has more partitions, or is gone."""
        self.version += 1
        if created:
            self.created_version = self.version

    def names(self) -> list[str]:
        return [name for name in self._log.topics() if not name.startswith(HIDDEN_PREFIX)]

    def named(self, name: str) -> Topic | None:
        return None if name.startswith(HIDDEN_PREFIX) else self._log.topics().get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        topic = self._log.topic_by_id(topic_id)
        return None if topic is None or topic.name.startswith(HIDDEN_PREFIX) else topic

    def ids(self, names: Iterable[str]) -> frozenset[UUID]:
        """Of those that exist."""
        return frozenset(topic.topic_id for name in names if (topic := self.named(name)) is not None)

    def fingerprint(self, names: Iterable[str]) -> int:
        """Differs when one of these topics has come, gone, been made anew, or grown; 0 when none of them exists.

        Kafka has XXH3 here (KIP-1101); the number is compared with nothing but an earlier one of the same server.
        """
        found = {name: topic for name in names if (topic := self.named(name)) is not None}
        if not found:
            return 0
        digest = blake2b(digest_size=8)
        for name, topic in sorted(found.items()):
            digest.update(f"{name}:{topic.topic_id.hex}:{len(topic.partitions)};".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)
