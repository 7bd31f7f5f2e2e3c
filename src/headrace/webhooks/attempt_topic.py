"""Writes attempts to the topic `<route>.attempts`.

It is made with the first attempt, with one partition, and keeps a week and `RETENTION_BYTES` at most; who wants more or less
configures the topic. One that is there is taken as it is. Attempts of one turn of the event loop are one batch.

An attempt that can't be written (a full disk, a name that is taken) is lost and counted; deliveries go on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headrace.broker.routes.definition import ATTEMPTS
from headrace.broker.topics import NewTopic, Topics
from headrace.log.errors import LogError
from headrace.record import encode_batch
from headrace.webhooks.attempt import Attempt

if TYPE_CHECKING:
    from headrace.clock import Clock
    from headrace.log.port import Partition

logger = logging.getLogger("headrace.webhooks")

RETENTION_BYTES = 64 * 1024 * 1024
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * 86_400_000),
    "retention.bytes": str(RETENTION_BYTES),
    "segment.bytes": str(RETENTION_BYTES // 8),
    "compression.type": "producer",
}
MAX_WAITING = 1000


class AttemptTopic:
    """Of one route."""

    def __init__(self, route: str, topics: Topics, clock: Clock) -> None:
        self.name = route + ATTEMPTS
        self.lost = 0
        self._topics = topics
        self._clock = clock
        self._waiting: list[Attempt] = []
        self._error: str | None = None

    def add(self, attempt: Attempt) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(attempt)
        if len(self._waiting) >= MAX_WAITING:
            self.flush()

    def flush(self) -> None:
        attempts, self._waiting = self._waiting, []
        if not attempts:
            return
        now_ms = self._clock.now_ms()
        try:
            self._partition().append(encode_batch([attempt.event(now_ms) for attempt in attempts], now_ms=now_ms))
            self._error = None
        except LogError as error:
            self.lost += len(attempts)
            if self._error != str(error):  # once for each reason
                logger.warning("attempts can't be written to topic '%s': %s", self.name, error)
            self._error = str(error)

    def _partition(self) -> Partition:
        topic = self._topics.get(self.name)
        if topic is None:
            topic = self._topics.define(NewTopic(self.name, partitions=1, config=TOPIC_CONFIG))
        return topic.partitions[0]
