"""Records that can't be delivered, as records of the route's dead-letter topic, `<route>.dead-letters`.

A dead letter is the record's key, value and headers, and behind them, all as text, what a share group's dead letters have as
well (`broker.groups.share.dead_letter_records`):

    __dlq.errors.topic       where it came from
    __dlq.errors.partition
    __dlq.errors.offset
    __dlq.errors.timestamp   the record's own, in ms
    __dlq.errors.group       the group whose offsets are the route's position
    __dlq.errors.route       the route
    __dlq.errors.message     why

Of one that came in from outside there is `__dlq.errors.source` in place of the first three and the group.

Of a batch that can't be read there is one dead letter, without content. The topic is made with the first dead letter, with one
partition and without an end to its retention; one that is there is taken as it is, and a dead letter goes to the partition with
the number of its origin, modulo how many there are. One that is too long for the topic is written without content.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.broker.groups.share.dead_letter_records import HEADER_PREFIX
from headrace.broker.open_partitions import open_in_turn
from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.reading import Unreadable
from headrace.broker.topics import NewTopic, Topics
from headrace.clock import Clock
from headrace.dataclass import dataclass
from headrace.log.errors import BatchTooLarge, TopicExists, UnknownTopic
from headrace.log.port import Partition, Topic
from headrace.record import Event, Record, encode_batch

TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": str(256 * 1024 * 1024)}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    record: Record | Unreadable | Event
    reason: str

    def event(self, definition: RouteDefinition, partition: int, *, with_content: bool = True) -> Event:
        record = self.record
        facts: list[tuple[str, object]] = [("topic", definition.topic)]
        if isinstance(record, Event):
            facts = [("source", definition.source.label)]
        else:
            offset = record.first if isinstance(record, Unreadable) else record.offset
            facts += [("partition", partition), ("offset", offset), ("group", definition.group_id)]
        if record.timestamp_ms is not None:
            facts.append(("timestamp", record.timestamp_ms))
        facts += [("route", definition.name), ("message", self.reason)]
        added = tuple((HEADER_PREFIX + name, str(fact).encode("utf-8", "surrogateescape")) for name, fact in facts)
        if isinstance(record, Unreadable) or not with_content:
            return Event(None, None, added)
        return Event(record.key, record.value, record.headers + added)


class DeadLetterTopic:
    """Of one route."""

    def __init__(self, definition: RouteDefinition, topics: Topics, clock: Clock) -> None:
        self._definition = definition
        self._topics = topics
        self._clock = clock

    async def write(self, origin: int, letters: Sequence[DeadLetter]) -> None:
        """Those of one partition. Durable when the log has synced. Raises LogError, and then nothing was written, or a part of
        it."""
        topic = await self._topic()
        partitions = topic.partitions
        self._append(partitions[open_in_turn(origin, origin % len(partitions), partitions)], origin, letters)

    async def _topic(self) -> Topic:
        name = self._definition.dead_letter_topic
        topic = self._topics.get(name)
        if topic is None:
            try:
                await self._topics.create(NewTopic(name, partitions=1, config=TOPIC_CONFIG))
            except TopicExists:
                pass  # somebody else was quicker
            topic = self._topics.get(name)
            if topic is None:
                raise UnknownTopic(f"the dead-letter topic '{name}' is being made")
        return topic

    def _append(self, partition: Partition, origin: int, letters: Sequence[DeadLetter]) -> None:
        now_ms = self._clock.now_ms()
        try:
            partition.append(encode_batch([letter.event(self._definition, origin) for letter in letters], now_ms=now_ms))
        except BatchTooLarge:
            if len(letters) == 1:
                bare = letters[0].event(self._definition, origin, with_content=False)
                partition.append(encode_batch([bare], now_ms=now_ms))
                return
            half = len(letters) // 2
            self._append(partition, origin, letters[:half])
            self._append(partition, origin, letters[half:])
