"""Keeps a table of what each customer has spent up to date. Look at it with any tool while the stream runs."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from headrace.spark import submit
from headrace.spark.tables import upsert

ORDER = "id string, customer string, amount decimal(10,2), at timestamp"


def customers(records: DataFrame) -> DataFrame:
    order = F.from_json(F.col("value").cast("string"), ORDER)
    orders = records.select(order.alias("order")).select("order.*").where("customer IS NOT NULL")
    return orders.groupBy("customer").agg(
        F.sum("amount").alias("spent"), F.count("*").alias("orders"), F.max("at").alias("last")
    )


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/topic_to_table",
    tables: str = "sqlite:tables.db",
    topic: str = "orders",
) -> StreamingQuery:
    reader = spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    records = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = upsert(customers(records), tables, "customers", ["customer"]).outputMode("update")
    return writer.option("checkpointLocation", checkpoint).start()


if __name__ == "__main__":
    submit(pipeline)
