"""Reads a topic as it is now, as a table: what did each customer order?"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.spark import submit

ORDER = "id string, customer string, amount decimal(10,2), at timestamp"


def orders(records: DataFrame) -> DataFrame:
    return records.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")


def per_customer(orders: DataFrame) -> DataFrame:
    return orders.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("spent")).orderBy("customer")


def pipeline(spark: SparkSession, *, bootstrap: str = "127.0.0.1:9092", topic: str = "orders") -> None:
    records = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    per_customer(orders(records)).show()


if __name__ == "__main__":
    submit(pipeline)
