"""Balances of all accounts from the whole stream of transactions, exact to the cent, into a table and a compacted topic.

A balance is the sum of everything that ever happened to an account, so nothing may be missing and nothing may count twice. A
transaction that was delivered again is known by its id. There is no watermark, for it would drop what comes too late and leave
the balance wrong for ever; the price is that the state store, on disk, keeps every id: some 100 bytes a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.banking.messages import BALANCES, MONEY, TRANSACTIONS, all_transactions, transactions
from headrace.spark.pipelines.parsing import accepted, events, keep_rejected
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, publish_changes, start
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BALANCE = f"""
    account string not null, customer string not null, currency string not null,
    balance {MONEY} not null, transactions long not null, last timestamp not null
"""
SHOWS = [
    Shown(
        BALANCES,
        "Balances",
        columns=("account", "customer", "currency", "balance", "transactions", "last"),
        sort="-balance",
        plots=(Plot("Greatest balances", "ranking", x="account", y="balance", unit="EUR", top=15),),
    )
]


def once(transactions: DataFrame) -> DataFrame:
    """Each transaction once, however often it was delivered and however late."""
    return transactions.dropDuplicates(["id"])


def balances(transactions: DataFrame) -> DataFrame:
    """What every account holds, from how many transactions, and when the last of them happened."""
    return transactions.groupBy("account", "customer", "currency").agg(
        F.sum("amount").cast(MONEY).alias("balance"),
        F.count("*").alias("transactions"),
        F.max("at").alias("last"),
    )


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/banking.balances",
    tables: str = "sqlite:tables.db",
    every: str = "1 second",
) -> list[StreamingQuery]:
    """The balances go to the topic, exactly once, and from there into the table `balances`."""
    ensure_topics(bootstrap, {TRANSACTIONS: PLAIN, BALANCES: COMPACTED})
    everything = all_transactions(spark, bootstrap)
    now = balances(once(transactions(everything)))
    table = accepted(events(spark, bootstrap, BALANCES, BALANCE)).drop("record")
    return [
        start(publish_changes(now, bootstrap, BALANCES, ["account", "currency"]), f"{checkpoint}/balances", every, "update"),
        start(
            upsert(table, tables, "balances", ["account", "currency"], order_by=["transactions"]), f"{checkpoint}/table", every
        ),
        start(keep_rejected(everything, tables), f"{checkpoint}/rejected", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
