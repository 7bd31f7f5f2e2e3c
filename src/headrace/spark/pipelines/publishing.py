"""Events out: rows become JSON objects in a topic, exactly once, and queries get their trigger and their checkpoint.

    start(publish(alerts, bootstrap, "bank.alerts", ["customer"]), f"{checkpoint}/alerts", "1 second")

`ensure_topics` makes the topics a pipeline reads and writes where they do not exist, so that it may start before its events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.client.kafka import Cluster, Refused
from headrace.client.kafka.topics import SERVER_DEFAULT, create_topic, wait_until_led
from headrace.kafka.codec.errors import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
PLAIN: Mapping[str, str] = {}


def published(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows as records: the key is the key columns, `|` between them, the value a JSON object of all columns. Decimals are
    written as strings, because a JSON number is a float to most who read it."""
    columns = [
        (F.col(name).cast("string").alias(name) if kind.startswith("decimal") else F.col(name)) for name, kind in frame.dtypes
    ]
    return frame.select(
        F.concat_ws("|", *(F.col(name).cast("string") for name in key)).alias("key"),
        F.to_json(F.struct(*columns), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "timeZone": "UTC"}).alias("value"),
    )


def publish(frame: DataFrame, bootstrap: str, topic: str, key: Sequence[str]) -> DataStreamWriter:
    """Writes a stream of rows to the topic, `published`, exactly once: read the topic with read_committed."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once"}
    return published(frame, key).writeStream.format("headrace").options(**options)


def publish_changes(frame: DataFrame, bootstrap: str, topic: str, key: Sequence[str]) -> DataStreamWriter:
    """The same for rows that change, outputMode("update"), into a compacted topic: the last record of a key is its row. Spark
    lets no Python sink take updates as they are, so a micro-batch is written by `tables`: as one transaction, exactly once."""
    from headrace.spark.tables import upsert

    return upsert(frame, f"headrace://{bootstrap}", topic, key)


def start(writer: DataStreamWriter, checkpoint: str, every: str, mode: str = "append") -> StreamingQuery:
    """Starts a query. Its name is the last part of its checkpoint folder's path."""
    name = checkpoint.rstrip("/").rpartition("/")[2]
    named = writer.queryName(name).outputMode(mode).option("checkpointLocation", checkpoint)
    return named.trigger(processingTime=every).start()


def ensure_topics(bootstrap: str, topics: Mapping[str, Mapping[str, str]], partitions: int = SERVER_DEFAULT) -> None:
    """Makes those of the topics that do not exist, with these settings. One that exists stays as it is."""
    cluster = Cluster(bootstrap)
    try:
        for name, configs in topics.items():
            try:
                create_topic(cluster, name, partitions=partitions, configs=configs)
            except Refused as refused:
                if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            wait_until_led(cluster, name)
    finally:
        cluster.close()
