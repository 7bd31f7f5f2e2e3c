"""Consumers with enhanced fan-out: names by which somebody subscribes to the shards of a stream. They are there when they were
registered; what they read is the front end's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from headrace.broker.streams.names import consumer_arn
from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.streams.stream import Stream

MAX_CONSUMERS = 20  # of one stream


@dataclass(frozen=True, slots=True)
class ConsumerDefinition:
    name: str
    created_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)
    policy: str | None = None

    def row(self) -> bytes:
        facts = {"name": self.name, "created_ms": self.created_ms, "tags": dict(self.tags), "policy": self.policy}
        return json.dumps(facts, separators=(",", ":")).encode()

    @classmethod
    def of(cls, row: bytes) -> ConsumerDefinition:
        """Raises ValueError."""
        try:
            facts: dict[str, Any] = json.loads(row)
            return cls(facts["name"], facts["created_ms"], facts["tags"], facts["policy"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"a row that no consumer has: {error!r}") from error


class Consumer:
    """One object for as long as it is registered."""

    __slots__ = ("definition", "gone", "stream")

    def __init__(self, stream: Stream, definition: ConsumerDefinition) -> None:
        self.stream = stream
        self.definition = definition
        self.gone = False

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def created_ms(self) -> int:
        return self.definition.created_ms

    @property
    def tags(self) -> Mapping[str, str]:
        return self.definition.tags

    @property
    def policy(self) -> str | None:
        return self.definition.policy

    @property
    def status(self) -> str:
        return "DELETING" if self.gone else "ACTIVE"

    @property
    def arn(self) -> str:
        stream = self.stream
        return consumer_arn(stream.account, stream.region, stream.name, self.name)
