"""Card fraud: bursts, impossible travel and amounts unusual for the customer, as alerts with the customer's name.

Each customer's history is kept with `transformWithState` in RocksDB; the rules and what they remember are in `suspicion`. A
customer who has not paid for `forget_days` is forgotten, so the state is bounded by the active customers. Alerts are joined
with the customers, a table read from its compacted topic, and written exactly once.

The watermark stays as far behind as the rules remember: a payment that is later than that could not be judged any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.banking.messages import (
    ALERTS,
    CUSTOMERS,
    MONEY,
    TRANSACTIONS,
    all_transactions,
    customers,
    transactions,
)
from headrace.spark.pipelines.banking.suspicion import Limits
from headrace.spark.pipelines.banking.watch import SUSPICION, Watch
from headrace.spark.pipelines.parsing import accepted, events, keep_rejected
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, publish, start
from headrace.spark.pipelines.showing import DAY, Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

USUAL = Limits()
ALERT = f"""
    id string not null, rule string not null, customer string not null, name string, home string, account string not null,
    payment string not null, other string, at timestamp not null, amount {MONEY} not null, merchant string, city string,
    why string not null
"""
SHOWS = [
    Shown(
        ALERTS,
        "Alerts",
        key=("id",),
        columns=("at", "rule", "name", "customer", "amount", "merchant", "city", "home", "why"),
        plots=(
            Plot("Alerts each day, by rule", "bars", x="at", series="rule", each_s=DAY),
            Plot("Amounts under suspicion, by customer", "ranking", x="name", y="amount", unit="EUR", top=10),
        ),
    )
]


def suspicions(transactions: DataFrame, limits: Limits = USUAL, forget_days: int = 30) -> DataFrame:
    """What `suspicion.judge` finds in each customer's card payments, as they arrive."""
    payments = transactions.where(F.col("kind") == "card").withWatermark("at", f"{limits.remembered_hours} hours")
    seen = payments.select(
        *("customer", "id", "account", "at"),
        F.unix_millis("at").alias("at_ms"),
        (-F.col("amount") * 100).cast("long").alias("cents"),
        *("merchant", "city", "lat", "lon", "record.partition", "record.offset"),
    )
    return seen.groupBy("customer").transformWithState(Watch(limits, forget_days), SUSPICION, "Append", "EventTime")


def alerts(suspicions: DataFrame, customers: DataFrame) -> DataFrame:
    """The suspicions with the name and the home of the customer, where they are known. The id is made of rule and payment: a
    suspicion has the same one whenever it is found again."""
    known = F.broadcast(customers.select(F.col("id").alias("customer"), "name", F.col("city").alias("home")))
    return suspicions.join(known, "customer", "left").select(
        F.concat_ws(":", "rule", "payment").alias("id"),
        *("rule", "customer", "name", "home", "account", "payment", "other"),
        F.timestamp_millis("at_ms").alias("at"),
        (F.col("cents").cast(MONEY) / 100).cast(MONEY).alias("amount"),
        *("merchant", "city", "why"),
    )


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/banking.fraud",
    tables: str = "sqlite:tables.db",
    every: str = "1 second",
    velocity_payments: int = 5,
    velocity_minutes: int = 10,
    plane_kmh: float = 1000.0,
    amount_times: int = 20,
    forget_days: int = 30,
) -> list[StreamingQuery]:
    """The alerts go to the topic, exactly once, and from there into the table `alerts`."""
    ensure_topics(bootstrap, {TRANSACTIONS: PLAIN, CUSTOMERS: COMPACTED, ALERTS: PLAIN})
    limits = Limits(velocity_payments, velocity_minutes, plane_kmh, amount_times=amount_times)
    everything = all_transactions(spark, bootstrap)
    found = alerts(suspicions(transactions(everything), limits, forget_days), customers(spark, bootstrap))
    table = accepted(events(spark, bootstrap, ALERTS, ALERT)).drop("record")
    return [
        start(publish(found, bootstrap, ALERTS, ["customer"]), f"{checkpoint}/alerts", every),
        start(upsert(table, tables, "alerts", ["id"]), f"{checkpoint}/table", every),
        start(keep_rejected(everything, tables), f"{checkpoint}/rejected", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
