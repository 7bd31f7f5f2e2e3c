"""Copies large orders from one topic to another, exactly once: kill it at any moment and start it again."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from headrace.spark import submit


def large(records: DataFrame, amount: float) -> DataFrame:
    """Key, value and headers stay as they are."""
    found = F.get_json_object(F.col("value").cast("string"), "$.amount").cast("decimal(10,2)")
    return records.where(found >= amount).select("key", "value", "headers")


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/copy_topic",
    source: str = "orders",
    target: str = "large-orders",
    amount: float = 100.0,
) -> StreamingQuery:
    servers = {"kafka.bootstrap.servers": bootstrap}
    reader = spark.readStream.format("headrace").options(**servers)
    records = reader.option("subscribe", source).option("startingOffsets", "earliest").option("includeHeaders", True).load()
    writer = large(records, amount).writeStream.format("headrace").options(**servers)
    return writer.option("topic", target).option("delivery", "exactly-once").option("checkpointLocation", checkpoint).start()


if __name__ == "__main__":
    submit(pipeline)
