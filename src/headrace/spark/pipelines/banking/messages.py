"""The bank's topics and the fields of their events, as every pipeline of this folder reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark.pipelines.parsing import accepted, events, past_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSACTIONS, CUSTOMERS = "bank.transactions", "bank.customers"
BALANCES, ALERTS, DASHBOARD, COMPLIANCE = "bank.balances", "bank.alerts", "bank.dashboard", "bank.compliance"

MONEY = "decimal(18,2)"
TRANSACTION = """
    id string not null, account string not null, customer string not null, kind string not null,
    amount string not null, currency string not null, merchant string, category string,
    city string, lat double, lon double, counterparty string, at timestamp not null, booked timestamp not null
"""
CUSTOMER = "id string not null, version int not null, name string not null, city string, lat double, lon double"


def all_transactions(spark: SparkSession, bootstrap: str, *, past: bool = False, **options: str) -> DataFrame:
    """Every record of the topic, the faulty ones with their fault. Amounts are strings in the events, so that no JSON reader
    makes floats of them; one that would lose a digit as MONEY is a fault. So is a time that can't be: one event from the
    far future would move the watermarks there, and everything else would come too late."""
    checks = {
        "amount is not a decimal with at most two digits after the point": F.col("amount").rlike(r"^-?\d{1,16}(\.\d{1,2})?$"),
        "happened after it was booked": F.col("at") <= F.col("booked"),
    }
    read = past_events if past else events
    return read(spark, bootstrap, TRANSACTIONS, TRANSACTION, checks=checks, **options)


def transactions(everything: DataFrame) -> DataFrame:
    """The good ones among `all_transactions`, with exact amounts. Still as delivered: some twice, some late."""
    return accepted(everything).withColumn("amount", F.col("amount").cast(MONEY))


def customers(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The customers as they are now: the newest state of each in the compacted topic, without those whose newest state is a
    deletion (a record without a value). Joined with a stream, Spark reads the topic again in every micro-batch, so a change
    counts from the next one on."""
    states = past_events(spark, bootstrap, CUSTOMERS, CUSTOMER).where(F.col("fault").isNull() | F.col("raw").isNull())
    newest = F.struct("record.offset", "id", "name", "city", "lat", "lon")  # all states of a customer are in one partition
    return (
        states.groupBy("record.key")
        .agg(F.max(newest).alias("newest"))
        .select("newest.*")
        .drop("offset")
        .where("id is not null")
    )
