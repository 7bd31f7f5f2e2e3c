"""A topic, as what a route reads and as what it fills."""

from __future__ import annotations

from typing import ClassVar

from headrace.broker.routes.ends.end import Json
from headrace.broker.routes.ends.parsing import check_members, flag, one_of, topic_name
from headrace.dataclass import dataclass

BY_KEY, SAME = "key", "same"


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A topic that is read; it need not be there yet."""

    topic: str

    kind: ClassVar[str] = "topic"

    def json(self) -> dict[str, object]:
        return {"type": self.kind, "topic": self.topic}

    def shown(self) -> dict[str, object]:
        return self.json()

    @property
    def label(self) -> str:
        return f"topic {self.topic}"

    @classmethod
    def of(cls, given: Json) -> TopicSource:
        check_members(given, {"type", "topic"}, "source.")
        return cls(topic_name(given, "topic", "source."))


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """A topic that is written. `partition` is how one is picked: by the key, as Kafka's clients do, or the one with the number
    that the record was read from."""

    topic: str
    partition: str = BY_KEY
    timestamp: bool = True  # each record keeps its own

    kind: ClassVar[str] = "topic"

    def json(self) -> dict[str, object]:
        return {"type": self.kind, "topic": self.topic, "partition": self.partition, "timestamp": self.timestamp}

    def shown(self) -> dict[str, object]:
        return self.json()

    @property
    def label(self) -> str:
        return f"topic {self.topic}"

    @classmethod
    def of(cls, given: Json) -> TopicTarget:
        check_members(given, {"type", "topic", "partition", "timestamp"}, "destination.")
        return cls(
            topic_name(given, "topic", "destination."),
            one_of(given, "partition", "destination.", (BY_KEY, SAME), BY_KEY),
            flag(given, "timestamp", "destination.", default=True),
        )
