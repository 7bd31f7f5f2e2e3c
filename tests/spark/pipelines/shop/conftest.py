"""A shop on a broker of its own: messages in, pipelines over them, topics and tables out.

Messages are written while no query runs. So each `run` sees what was fed before it in one micro-batch, followed by one without
data that takes note of the new watermark: the watermark in force for a message is that of all earlier runs. Each `run` starts
the queries anew from their checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.brokers import Brokers

from headrace.client.kafka import Cluster, Producer
from headrace.record.event import Event
from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.publishing import COMPACTED, ensure_topics
from headrace.spark.pipelines.shop.events import PRODUCTS, TOPICS
from headrace.spark.runner.starting import one_by_one
from headrace.spark.tables import rows


class Shop:
    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self._spark = spark
        self._folder = folder
        self._cluster = Cluster(bootstrap)
        self._producer = Producer(self._cluster)
        self.tables = f"sqlite:{folder}/tables.db"
        ensure_topics(bootstrap, {topic: COMPACTED if topic == PRODUCTS else {} for topic in TOPICS}, partitions=2)

    def close(self) -> None:
        self._cluster.close()

    def feed(self, happenings: list[Happening]) -> None:
        for happening in happenings:
            self._producer.send(happening.topic, Event.of(dict(happening.value), key=happening.key))
        self._producer.flush()

    def feed_text(self, topic: str, text: str) -> None:
        self._producer.send(topic, Event.of(text, key="?"))
        self._producer.flush()

    def run(self, pipeline: Callable[..., list[StreamingQuery]], **settings: Any) -> None:
        """From where the last run ended until everything is read: one query after the other, since some read what others
        write."""
        with one_by_one(self._spark, lambda query: query.awaitTermination(), available_now=True):
            pipeline(
                self._spark,
                bootstrap=self.bootstrap,
                checkpoint=f"{self._folder}/checkpoints",
                tables=self.tables,
                **settings,
            )

    def topic(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Keys and values of what is committed, in the order of each partition."""
        records = Brokers("headrace", self.bootstrap).records(name)
        return [((record.key or b"").decode(), json.loads(record.value or b"null")) for record in records]

    def table(self, name: str) -> list[dict[str, Any]]:
        return rows(self.tables, name)


@pytest.fixture
def shop(spark: SparkSession, headrace_server: Any, tmp_path: Path) -> Iterator[Shop]:
    spark.sparkContext.setLogLevel("ERROR")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    made = Shop(spark, headrace_server.listeners["kafka"], tmp_path)
    try:
        yield made
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        made.close()
