"""The topics that exist, as rows of the table `__headrace_topics`: name → id, partitions, what was set for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from headrace.dataclass import dataclass

TABLE = "__headrace_topics"
TABLE_ID = UUID("68656164-7261-4365-8000-000000000001")  # known before any definition can be read


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    topic_id: UUID
    partitions: int
    config: Mapping[str, str]
    internal: bool
    in_memory: bool = False  # decided when the topic is made: it can't be moved between memory and disk

    def row(self) -> tuple[bytes, bytes]:
        facts = {
            "id": self.topic_id.hex,
            "partitions": self.partitions,
            "config": dict(self.config),
            "internal": self.internal,
            "memory": self.in_memory,
        }
        return self.name.encode(), json.dumps(facts, separators=(",", ":")).encode()

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Definition:
        facts = json.loads(value)
        return cls(
            key.decode(), UUID(hex=facts["id"]), facts["partitions"], facts["config"], facts["internal"], facts["memory"]
        )
