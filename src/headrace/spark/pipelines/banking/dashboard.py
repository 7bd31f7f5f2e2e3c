"""A live dashboard of card payments: by category each minute, top merchants of the last five minutes, and what comes late.

Three panels, each a streaming aggregation whose rows are written again as they grow, all to the topic `bank.dashboard` and from
there into the table `dashboard`:

    minute        tumbling windows of a minute: payments and volume of each category
    five minutes  windows of five minutes that slide by one: payments and volume of each merchant
    late          by the minute in which they were booked: payments booked more than `lateness` after they were made

The first two go by the time of the payment (`at`) and wait for late ones: a payment that comes more than `lateness` after the
newest one is dropped by the watermark. The third counts those that come that late; it goes by the time of booking, so it has
nothing to drop. A payment that was delivered again counts once: ids are kept as long as the watermark lets a payment in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.banking.messages import DASHBOARD, MONEY, TRANSACTIONS, all_transactions, transactions
from headrace.spark.pipelines.banking.picture import Picture
from headrace.spark.pipelines.parsing import accepted, events, keep_rejected
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, publish_changes, start
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import rows, upsert_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

KEY = ("panel", "start", "name", "currency")
PANEL = f"""
    panel string not null, start timestamp not null, end timestamp not null, name string not null, currency string not null,
    payments long not null, volume {MONEY} not null
"""
SHOWS = [
    Shown(
        DASHBOARD,
        "Card payments",
        key=KEY,
        columns=("panel", "start", "end", "name", "currency", "payments", "volume"),
        sort="-start",
        plots=(
            Plot("Volume each minute", "bars", x="start", y="volume", series="name", unit="EUR", where={"panel": "minute"}),
            Plot(
                "Top merchants of five minutes",
                "ranking",
                x="name",
                y="volume",
                unit="EUR",
                top=10,
                where={"panel": "five minutes"},
                newest="start",
                back=4,
            ),
            Plot("Booked late, each minute", "bars", x="start", y="payments", unit="payments", where={"panel": "late"}),
        ),
    )
]


def payments(transactions: DataFrame) -> DataFrame:
    """What people spent by card, above zero."""
    return transactions.where("kind = 'card'").withColumn("amount", (-F.col("amount")).cast(MONEY))


def minutes(payments: DataFrame, lateness: str = "10 minutes") -> DataFrame:
    """Tumbling windows: each payment is in one."""
    made = payments.withWatermark("at", lateness).dropDuplicatesWithinWatermark(["id"])
    return _panel(made, "minute", F.window("at", "1 minute"), F.coalesce("category", F.lit("other")))


def five_minutes(payments: DataFrame, lateness: str = "10 minutes") -> DataFrame:
    """Sliding windows: each payment is in five of them."""
    made = payments.withWatermark("at", lateness).dropDuplicatesWithinWatermark(["id"])
    return _panel(made, "five minutes", F.window("at", "5 minutes", "1 minute"), F.coalesce("merchant", F.lit("unknown")))


def late(payments: DataFrame, lateness: str = "10 minutes") -> DataFrame:
    """Those that were booked too long after they were made."""
    booked = payments.where(F.col("booked") > F.col("at") + F.expr(f"interval {lateness}"))
    once = booked.withWatermark("booked", "1 day").dropDuplicatesWithinWatermark(["id"])
    return _panel(once, "late", F.window("booked", "1 minute"), F.lit("late"))


def _panel(payments: DataFrame, panel: str, window: Column, name: Column) -> DataFrame:
    counted = payments.groupBy(window.alias("window"), name.alias("name"), "currency").agg(
        F.count("*").alias("payments"), F.sum("amount").cast(MONEY).alias("volume")
    )
    return counted.select(F.lit(panel).alias("panel"), "window.start", "window.end", "name", "currency", "payments", "volume")


def keep_panels(panels: DataFrame, tables: str, picture: str) -> DataStreamWriter:
    """Into the table, and from the table into the picture, if one is wanted. A row of a window replaces the one that counted
    fewer payments, so a micro-batch that is done again changes nothing."""
    drawn = Picture(picture) if picture else None

    def keep(batch: DataFrame, number: int) -> None:
        batch.persist()
        upsert_batch(batch, tables, "dashboard", KEY, order_by=["payments"])
        if drawn is not None:
            drawn.add(batch.toArrow().to_pylist() if drawn.begun else rows(tables, "dashboard"))
            drawn.draw()
        batch.unpersist()

    return panels.writeStream.foreachBatch(keep)


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/banking.dashboard",
    tables: str = "sqlite:tables.db",
    every: str = "1 second",
    lateness: str = "10 minutes",
    picture: str = "",
) -> list[StreamingQuery]:
    """`picture` is an HTML file to draw after every change: open it in a browser, it loads itself again."""
    ensure_topics(bootstrap, {TRANSACTIONS: PLAIN, DASHBOARD: COMPACTED})
    everything = all_transactions(spark, bootstrap)
    spent = payments(transactions(everything))
    panels = {"minutes": minutes(spent, lateness), "five-minutes": five_minutes(spent, lateness), "late": late(spent, lateness)}
    table = accepted(events(spark, bootstrap, DASHBOARD, PANEL)).drop("record")
    return [
        *(
            start(publish_changes(panel, bootstrap, DASHBOARD, KEY), f"{checkpoint}/{name}", every, "update")
            for name, panel in panels.items()
        ),
        start(keep_panels(table, tables, picture), f"{checkpoint}/table", every),
        start(keep_rejected(everything, tables), f"{checkpoint}/rejected", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
