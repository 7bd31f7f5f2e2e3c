"""Which partitions are read: those of named topics, of topics whose name matches a pattern, or named partitions.

The partitions are looked up anew for each micro-batch, so that topics and partitions that appear while a query runs are seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.kafka.partitions import TopicPartition
from headrace.spark.options import BadOption, Options
from headrace.spark.source.offsets import listed

if TYPE_CHECKING:
    from headrace.client.kafka.cluster import Metadata


@dataclass(frozen=True, slots=True)
class Subscription:
    """One of the three ways to name what is read."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def names(self) -> list[str] | None:
        """The topics to ask metadata of; None for all there are."""
        if self.pattern is not None:
            return None
        return sorted({*self.topics, *(partition.topic for partition in self.assigned)})

    def choose(self, metadata: Metadata) -> list[TopicPartition]:
        """Its partitions among those that exist, sorted. Topics that Kafka keeps for itself never match a pattern."""
        found = [
            TopicPartition(name, partition.index)
            for name, topic in metadata.topics.items()
            if self.pattern is None or (not topic.internal and re.search(self.pattern, name))
            for partition in topic.partitions
        ]
        wanted = set(self.assigned)
        return sorted(partition for partition in found if not wanted or partition in wanted)

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern '{self.pattern}'"
        if self.assigned:
            return f"assign {listed(set(self.assigned))}"
        return f"subscribe {', '.join(self.topics)}"


def read_subscription(options: Options) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if options.given(name)]
    if len(given) != 1:
        said = f"both {' and '.join(given)} were given" if given else "none was given"
        raise BadOption(f"exactly one of the options subscribe, subscribePattern and assign says what is read; {said}")
    value = options.text(given[0]) or ""
    if given[0] == "subscribe":
        topics = tuple(sorted({name.strip() for name in value.split(",") if name.strip()}))
        if not topics:
            raise BadOption("option subscribe is empty: use topic names with commas between them")
        return Subscription(topics=topics)
    if given[0] == "subscribePattern":
        return Subscription(pattern=_pattern(value))
    return Subscription(assigned=_assigned(options))


def _pattern(value: str) -> str:
    if not value:
        raise BadOption("option subscribePattern is empty: use a regular expression such as orders-.*")
    try:
        re.compile(value)
    except re.error as error:
        raise BadOption(f"option subscribePattern '{value}' is not a regular expression: {error}") from None
    return value


def _assigned(options: Options) -> tuple[TopicPartition, ...]:
    value = options.parsed_json("assign")
    example = 'use JSON as in {"topic": [0, 1]}'
    if not isinstance(value, dict) or not value:
        raise BadOption(f"option assign: {example}")
    found: set[TopicPartition] = set()
    for topic, partitions in value.items():
        numbers = isinstance(partitions, list) and all(type(one) is int and one >= 0 for one in partitions)
        if not numbers or not partitions:
            raise BadOption(f"option assign, topic {topic}: {example}")
        found.update(TopicPartition(topic, one) for one in partitions)
    return tuple(sorted(found))
