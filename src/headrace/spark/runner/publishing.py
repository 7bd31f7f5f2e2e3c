"""The topic `headrace.pipelines`: how every pipeline gets on, for a console and for whoever watches.

Key: `<pipeline>/<query>`, and `<pipeline>` for what concerns a run as a whole. Value: JSON, the fields of
`progress.QueryStatus`. The last value of a key says how the query stands, also when it failed. One partition; the last value
of each key is kept, and all of them for a day.

A pipeline does not fail because its progress can't be published. While the server does not answer, publishing pauses for ten
seconds at a time, and what would have been published is dropped: newer values replace it anyway.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from headrace.client.kafka import ClientError, Cluster, Producer, Refused
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.kafka.codec.errors import ErrorCode
from headrace.record.event import Event

TOPIC = "headrace.pipelines"
CONFIGS = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
_TIMEOUT_S = 3.0
_PAUSE_S = 10.0


class Publisher:
    def __init__(self, server: str) -> None:
        self._cluster = Cluster(server, timeout_s=_TIMEOUT_S)
        self._producer: Producer | None = None
        self._not_before = 0.0
        self.trouble: str | None = None  # why nothing is published at the moment

    def publish(self, values: Iterable[tuple[str, dict[str, Any]]]) -> None:
        if time.monotonic() < self._not_before:
            return
        try:
            if self._producer is None:
                self._ensure_topic()
                self._producer = Producer(self._cluster)
            for key, value in values:
                self._producer.send(TOPIC, Event(key.encode(), json.dumps(value, ensure_ascii=False).encode()))
            self._producer.flush()
            self.trouble = None
        except ClientError as error:
            # What a producer could not send stays in it; the next one starts with nothing.
            self._producer = None
            self._not_before = time.monotonic() + _PAUSE_S
            self.trouble = str(error)

    def close(self) -> None:
        self._cluster.close()

    def _ensure_topic(self) -> None:
        try:
            create_topic(self._cluster, TOPIC, partitions=1, configs=CONFIGS)
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        wait_until_led(self._cluster, TOPIC)
