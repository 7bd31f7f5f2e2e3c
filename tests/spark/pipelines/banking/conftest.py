"""A bank on a server of its own: events in, pipelines over them, topics and tables out.

Events are written while no query runs, so each `run` sees what was fed before it in one micro-batch (and one without data,
which takes note of the new watermark). Each `run` starts the queries anew from their checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.brokers import Brokers

from headrace.client.kafka import Cluster, Producer
from headrace.record.event import Event
from headrace.spark.pipelines.banking.events import CUSTOMERS, TRANSACTIONS
from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.publishing import COMPACTED, ensure_topics
from headrace.spark.runner.starting import one_by_one
from headrace.spark.tables import rows

FOREVER = {"retention.ms": "-1"}


class Bank:
    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.tables = f"sqlite:{folder}/tables.db"
        self.dropped = 0  # by the watermark, in all runs so far, as the queries say it
        self._cluster = Cluster(bootstrap)
        self._producer = Producer(self._cluster)
        ensure_topics(bootstrap, {TRANSACTIONS: FOREVER, CUSTOMERS: COMPACTED}, partitions=2)

    def close(self) -> None:
        self._cluster.close()

    def feed(self, happenings: Iterable[Happening]) -> None:
        """The times of the records are those of booking."""
        for one in happenings:
            booked = datetime.fromisoformat(one.value.get("booked", one.value["at"]))
            value = json.dumps(one.value).encode()
            self._producer.send(one.topic, Event(one.key.encode(), value, (), int(booked.timestamp() * 1000)))
        self._producer.flush()

    def feed_raw(self, topic: str, key: str, value: bytes | None, partition: int | None = None) -> None:
        self._producer.send(topic, Event(key.encode(), value), partition)
        self._producer.flush()

    def run(self, pipeline: Callable[..., Any], queries: int = 99, **settings: Any) -> None:
        """From where the last run ended until everything is read: one query after the other, since some read what others
        write. Only the first `queries` of them: to start one takes a second or two, and the last run catches up."""
        with one_by_one(self.spark, lambda query: query.awaitTermination(), available_now=True), _the_first(queries):
            started = pipeline(
                self.spark,
                bootstrap=self.bootstrap,
                checkpoint=f"{self.folder}/checkpoints",
                tables=self.tables,
                **settings,
            )
        progresses = [progress for query in started for progress in query.recentProgress]
        operators = [one for progress in progresses for one in progress["stateOperators"]]
        self.dropped += sum(one["numRowsDroppedByWatermark"] for one in operators)

    def topic(self, name: str) -> list[dict[str, Any]]:
        """The values of what is committed, partition by partition."""
        return [json.loads(one.value) for one in Brokers("headrace", self.bootstrap).records(name) if one.value]

    def table(self, name: str) -> list[dict[str, Any]]:
        return rows(self.tables, name)


@contextmanager
def _the_first(queries: int) -> Iterator[None]:
    start = DataStreamWriter.start
    left = iter(range(queries))
    none = SimpleNamespace(isActive=False, recentProgress=[])
    DataStreamWriter.start = lambda *args, **kwargs: none if next(left, None) is None else start(*args, **kwargs)
    try:
        yield
    finally:
        DataStreamWriter.start = start


@pytest.fixture
def bank(spark: SparkSession, headrace_server: Any, tmp_path: Path) -> Iterator[Bank]:
    spark.sparkContext.setLogLevel("ERROR")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    made = Bank(spark, headrace_server.listeners["kafka"], tmp_path)
    try:
        yield made
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        made.close()
