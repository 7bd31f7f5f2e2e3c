"""Two topics for a console and for whoever watches: `headrace.pipelines`, how every pipeline gets on, and
`headrace.pipelines.log`, what it says.

Progress. Key: `<pipeline>/<query>`; value: JSON, the fields of `progress.QueryStatus`. Key: `<pipeline>`; value: JSON about the
run as a whole, see `about`, written when its state changes and every few seconds while it lives (`telling`). The last value of
a key says how the query or the run stands, also when it failed. One partition, compacted, and kept for a day.

Log. Key as above; value: JSON, the fields of `log_lines.LogEntry` and the name of the pipeline. One partition; a week and 64
MiB of all pipelines together.

A pipeline does not fail because something can't be published. While the server does not answer, publishing pauses for ten
seconds at a time; `publish` says whether it has worked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.client.kafka import ClientError, Cluster, Producer, Refused
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.kafka.codec.errors import ErrorCode
from headrace.record.event import Event
from headrace.spark.runner.home import UNAVAILABLE, RunRecord
from headrace.spark.runner.progress import utc_now

TOPIC, LOG_TOPIC = "headrace.pipelines", "headrace.pipelines.log"
CONFIGS: dict[str, Mapping[str, str]] = {
    TOPIC: {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
    LOG_TOPIC: {"retention.ms": "604800000", "retention.bytes": "67108864", "segment.bytes": "8388608"},
}
TIMEOUT_S = 3.0
_PAUSE_S = 10.0


class Publisher:
    """For one of the topics; of one thread."""

    def __init__(self, server: str, topic: str = TOPIC) -> None:
        self._cluster = Cluster(server, timeout_s=TIMEOUT_S)
        self._topic = topic
        self._producer: Producer | None = None
        self._not_before = 0.0
        self.trouble: str | None = None  # why nothing is published at the moment

    def publish(self, values: Iterable[tuple[str, dict[str, Any]]]) -> bool:
        if time.monotonic() < self._not_before:
            return False
        try:
            if self._producer is None:
                self._ensure_topic()
                self._producer = Producer(self._cluster)
            for key, value in values:
                self._producer.send(self._topic, Event(key.encode(), json.dumps(value, ensure_ascii=False).encode()))
            self._producer.flush()
            self.trouble = None
        except ClientError as error:
            # What a producer could not send stays in it; the next one starts with nothing.
            self._producer = None
            self._not_before = time.monotonic() + _PAUSE_S
            self.trouble = str(error)
        return self.trouble is None

    def close(self) -> None:
        self._cluster.close()

    def _ensure_topic(self) -> None:
        try:
            create_topic(self._cluster, self._topic, partitions=1, configs=CONFIGS[self._topic])
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        wait_until_led(self._cluster, self._topic)


def about(record: RunRecord, at: str, summary: str, shows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A run for who watches. Where its tables are and how it was set is nobody's business: there may be passwords in it."""
    return {
        "pipeline": record.pipeline,
        "state": record.state,
        "at": record.ended or at,
        "started": record.started,
        "error": record.error,
        "host": record.host,
        "pid": record.pid,
        "log": record.log,
        "summary": summary,
        "shows": list(shows),
    }


def tell_unavailable(server: str, pipeline: str, why: str) -> None:
    """That a pipeline could not even begin, for those who do not see the terminal it was started in."""
    publisher = Publisher(server)
    publisher.publish([(pipeline, {"pipeline": pipeline, "state": UNAVAILABLE, "at": utc_now(), "error": why})])
    publisher.close()
