"""Writing the shop's topics: rows become records, several kinds of them by one query, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark.pipelines.publishing import published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def records(frame: DataFrame, topic: str, key: list[str]) -> DataFrame:
    """The rows as records of one topic."""
    return published(frame, key).withColumn("topic", F.lit(topic))


def write_records(records: DataFrame, bootstrap: str) -> DataStreamWriter:
    """Writes records, each to the topic it names, exactly once: read the topics with read_committed."""
    options = {"kafka.bootstrap.servers": bootstrap, "delivery": "exactly-once"}
    return records.writeStream.format("headrace").options(**options)
