"""Writes the events of the gallery's generators to their topics, at a rate that a person can watch or as fast as it goes.

A feed begins now unless told otherwise, and takes its seed from the clock, so that a second feed tells new things: with the
seed and start of an earlier one it repeats it, event by event, and pipelines that know their message ids see nothing new.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice

from headrace.client.kafka import ClientError, Cluster, Producer, Refused
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.kafka.codec.errors import ErrorCode
from headrace.record.event import Event
from headrace.spark.pipelines.happening import Happening
from headrace.spark.runner.errors import UnknownPipeline
from headrace.spark.runner.finding import GALLERY, domains

RATE = 20.0
_AHEAD = 1000  # sent at once beside a run: a business begins with its customers or goods, and nobody wants to wait for those
_TURN_S = 0.1  # what is due is sent together, ten times a second
_MOST = 10_000  # in one turn, so that a feed that fell behind, or has no rate, can be stopped


def happenings(domain: str, seed: int | None = None, start: datetime | None = None) -> Iterator[Happening]:
    """The endless stream of a folder of the gallery."""
    if domain not in domains():
        raise UnknownPipeline(f"there are no events of '{domain}': use {' or '.join(domains())}")
    module = import_module(f"{GALLERY}.{domain}.events")
    begin = start or datetime.now(UTC).replace(microsecond=0)
    found: Iterator[Happening] = module.happenings(int(time.time()) if seed is None else seed, begin)
    return found


def tables(domain: str) -> Collection[str]:
    """Those of its topics that are tables: the last event of a key is what holds."""
    found: Collection[str] = import_module(f"{GALLERY}.{domain}.events").TABLES
    return found


class Feed:
    """Sends happenings, the first `ahead` of them at once; `sent` counts those that the server has acknowledged. Topics that do
    not exist are made; those among `tables` are compacted."""

    def __init__(
        self,
        cluster: Cluster,
        source: Iterator[Happening],
        *,
        rate: float = RATE,
        count: int | None = None,
        ahead: int = 0,
        tables: Collection[str] = (),
    ) -> None:
        self._tables = tables
        self._cluster = cluster
        self._ahead = ahead
        self._producer = Producer(cluster)
        self._source = source if count is None else islice(source, count)
        self._rate = rate
        self._topics: set[str] = set()
        self.sent = 0

    def run(self, ended: Callable[[], bool]) -> None:
        """Until the source is empty or `ended` says so. A rate of 0 has no pauses."""
        began = time.monotonic()
        while not ended():
            due = (
                _MOST
                if self._rate <= 0
                else min(_MOST, int((time.monotonic() - began) * self._rate) + 1 + self._ahead - self.sent)
            )
            batch = list(islice(self._source, max(0, due)))
            for happening in batch:
                self._send(happening)
            self._producer.flush()
            self.sent += len(batch)
            if due > 0 and len(batch) < due:
                return
            if self._rate > 0:
                time.sleep(_TURN_S)

    def _send(self, happening: Happening) -> None:
        if happening.topic not in self._topics:
            self._ensure(happening.topic)
        headers = tuple((name, value.encode()) for name, value in happening.headers.items())
        value = json.dumps(happening.value, ensure_ascii=False).encode()
        self._producer.send(happening.topic, Event(happening.key.encode(), value, headers))

    def _ensure(self, topic: str) -> None:
        try:
            create_topic(self._cluster, topic, configs={"cleanup.policy": "compact"} if topic in self._tables else {})
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        wait_until_led(self._cluster, topic)
        self._topics.add(topic)


class BackgroundFeed:
    """A feed beside a run, on a thread and connections of its own."""

    def __init__(self, server: str, domain: str, rate: float) -> None:
        self._cluster = Cluster(server)
        self._feed = Feed(self._cluster, happenings(domain), rate=rate, ahead=_AHEAD, tables=tables(domain))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{domain}", daemon=True)
        self.trouble: str | None = None
        self._thread.start()

    @property
    def sent(self) -> int:
        return self._feed.sent

    def close(self) -> None:
        self._ended.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            self._feed.run(self._ended.is_set)
        except ClientError as error:
            self.trouble = str(error)
        finally:
            self._cluster.close()
