"""A compliance report over a past period: totals of each customer, large cash movements, and deposits just below the limit.

It replays the log. Spark looks up the offsets of the period by the times of the records, reads on for `late_hours` after its
end for what was booked late, and keeps what happened in the period, each transaction once. Nothing in the report depends on
when it is made: once `late_hours` have passed, the same period gives the same report, byte for byte. (Names of customers are
not in it for that reason: they are as of today.)

The offsets are found by the clock of the log. Where events tell of another time, as in a time lapse, `seek=false` reads
the whole log and goes by the time of the events alone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.banking.messages import COMPLIANCE, MONEY, TRANSACTIONS, all_transactions, transactions
from headrace.spark.pipelines.banking.report import Section, write_report
from headrace.spark.pipelines.parsing import REJECTED, rejected
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import upsert_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BEGINNING, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
SHOWS = [
    Shown(
        COMPLIANCE,
        "Findings",
        columns=("finding", "customer", "currency", "movements", "total", "first", "last", "reference", "begin", "end"),
        sort="-total",
        plots=(
            Plot("Findings, by kind", "bars", x="finding", unit="findings"),
            Plot("Customers by what was found", "ranking", x="customer", y="total", unit="EUR", top=15),
        ),
    )
]


def in_period(transactions: DataFrame, begin: datetime, end: datetime) -> DataFrame:
    """What happened from `begin` up to, not including, `end`, each transaction once."""
    return transactions.where((F.col("at") >= F.lit(begin)) & (F.col("at") < F.lit(end))).dropDuplicates(["id"])


def totals(transactions: DataFrame) -> DataFrame:
    """What each customer received, paid, brought in and took out in cash."""
    amount = F.col("amount")
    cash = F.col("kind").isin("deposit", "withdrawal")
    return transactions.groupBy("customer", "currency").agg(
        F.count("*").alias("transactions"),
        _sum(amount > 0, amount).alias("received"),
        _sum(amount < 0, -amount).alias("paid"),
        _sum(cash & (amount > 0), amount).alias("cash_in"),
        _sum(cash & (amount < 0), -amount).alias("cash_out"),
    )


def large_cash(transactions: DataFrame, threshold: Decimal) -> DataFrame:
    """Cash movements at or above the threshold, each a finding of its own."""
    large = transactions.where(F.col("kind").isin("deposit", "withdrawal") & (F.abs("amount") >= F.lit(threshold)))
    return large.select(
        *("customer", "currency"),
        F.lit("large cash").alias("finding"),
        F.lit(1).cast("long").alias("movements"),
        F.abs("amount").cast(MONEY).alias("total"),
        *(F.col("at").alias("first"), F.col("at").alias("last"), F.col("id").alias("reference")),
    )


def structuring(transactions: DataFrame, threshold: Decimal, share: Decimal, least: int, days: int) -> DataFrame:
    """Deposits below the threshold, but by no more than `share` of it, `least` of them or more within `days`: one finding for
    each customer, over all deposits that are part of such a series."""
    close = (F.col("amount") < F.lit(threshold)) & (F.col("amount") >= F.lit(threshold * share))
    near = transactions.where((F.col("kind") == "deposit") & close).withColumn("ms", F.unix_millis("at"))
    span_ms = days * 86_400_000 - 1
    by_customer = Window.partitionBy("customer", "currency").orderBy("ms")
    counted = near.withColumn("until", F.count("*").over(by_customer.rangeBetween(-span_ms, 0)))
    series = counted.withColumn("most", F.max("until").over(by_customer.rangeBetween(0, span_ms))).where(F.col("most") >= least)
    return series.groupBy("customer", "currency").agg(
        F.lit("structuring").alias("finding"),
        F.count("*").alias("movements"),
        F.sum("amount").cast(MONEY).alias("total"),
        *(F.min("at").alias("first"), F.max("at").alias("last"), F.min_by("id", F.struct("at", "id")).alias("reference")),
    )


def _sum(where: Column, amount: Column) -> Column:
    return F.coalesce(F.sum(F.when(where, amount)), F.lit(0)).cast(MONEY)


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    tables: str = "sqlite:tables.db",
    begin: str = "",
    end: str = "",
    report: str = "compliance.md",
    late_hours: int = 24,
    seek: bool = True,
    threshold: str = "10000.00",
    share: str = "0.90",
    least: int = 3,
    days: int = 5,
) -> None:
    """`begin` and `end` are ISO-8601, in UTC unless they say otherwise; without them it is the whole log. `report` is a file
    that ends in .md, .html or .csv."""
    first, last = _moment(begin, BEGINNING), _moment(end, END)
    if first >= last:
        raise ValueError(f"the period from {begin} to {end} is empty: begin must be before end")
    ensure_topics(bootstrap, {TRANSACTIONS: PLAIN, COMPLIANCE: COMPACTED})
    options: dict[str, str] = {}
    if seek and begin:
        options |= {"startingTimestamp": _ms(first), "startingOffsetsByTimestampStrategy": "latest"}
    if seek and end:
        options |= {"endingTimestamp": _ms(last + timedelta(hours=late_hours))}
    everything = all_transactions(spark, bootstrap, past=True, **options)
    happened = in_period(transactions(everything), first, last).cache()
    limit = Decimal(threshold)
    found = large_cash(happened, limit).unionByName(structuring(happened, limit, Decimal(share), least, days))
    sections = [
        Section("Findings", found.orderBy("finding", "customer", "first", "reference")),
        Section("Totals", totals(happened).orderBy("customer", "currency")),
    ]
    period = {"begin": F.lit(first), "end": F.lit(last)}
    finding_key = ["begin", "end", "finding", "customer", "currency", "reference"]
    upsert_batch(found.withColumns(period), tables, "compliance_findings", finding_key)
    upsert_batch(found.withColumns(period), f"headrace://{bootstrap}", COMPLIANCE, finding_key)
    upsert_batch(totals(happened).withColumns(period), tables, "compliance_totals", ["begin", "end", "customer", "currency"])
    upsert_batch(rejected(everything), tables, REJECTED, ["topic", "partition", "offset"])
    write_report(report, f"Compliance report from {begin or 'the beginning'} to {end or 'now'}", sections)
    happened.unpersist()


def _moment(text: str, otherwise: datetime) -> datetime:
    if not text:
        return otherwise
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _ms(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


if __name__ == "__main__":
    submit(pipeline)
