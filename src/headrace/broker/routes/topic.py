"""The destination that is a topic: each record with its key, value, headers and, unless told otherwise, its timestamp.

no such topic        made with the server's defaults, or wait where `auto.create.topics.enable` is false
the log takes none   wait, and try again
a record that the topic takes no such of, as one without a key where it is compacted   failure
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.broker.routes.destination import Delivery
from headrace.broker.routes.ends.topic import SAME, TopicTarget
from headrace.broker.routes.filling import Filling
from headrace.broker.topics import Topics
from headrace.clock import Clock
from headrace.log.errors import UnknownTopic
from headrace.record import Record


class TopicDestination:
    def __init__(self, target: TopicTarget, topics: Topics, clock: Clock) -> None:
        self._target = target
        self._topics = topics
        self._clock = clock
        self._filling: Filling | None = None

    async def deliver(self, records: Sequence[Record], partition: int) -> Delivery:
        name = self._target.topic
        topic = self._topics.get(name)
        if topic is None:
            try:
                topic = await self._topics.auto_create(name)
            except UnknownTopic:
                return Delivery(0, wait=f"there is no topic '{name}'")
        filling = self._filling
        if filling is None or filling.topic is not topic:
            filling = self._filling = Filling(topic)
        own_time = self._target.timestamp
        entries = [(record.key, record.value, record.headers, record.timestamp_ms if own_time else None) for record in records]
        now_ms = self._clock.now_ms()
        if self._target.partition == SAME:
            return Delivery(len(records), filling.fill_partition(partition, entries, now_ms))
        return Delivery(len(records), filling.fill(entries, now_ms))

    def close(self) -> None:
        pass
