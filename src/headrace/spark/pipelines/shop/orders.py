"""Orders from placed to delivered, joined across four topics: the status of each, and alerts for those that are late.

Two queries look at the orders, in the two ways Spark has:

    payment   placed ⟕ paid, a stream–stream outer join with a limit in time: `shop.paid-orders`, and the alert "not paid"
    life      all four topics as one stream through a stateful processor with timers (`order_life`): `shop.order-status`, and
              the alerts "not shipped" and "not delivered"

The join has two watermarks and goes by the slower one, so that neither side is called late because the other is ahead; the
price is that a topic of payments that stays empty holds it back. The life has one watermark for all four topics: deliveries
that stop altogether still raise alerts. Both write exactly once; the alerts of both are in `shop.alerts`. From the topics come
the tables `shop_orders` and `shop_alerts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.parsing import accepted, events
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, start
from headrace.spark.pipelines.shop.order_life import SAID, STEPS, Limits, OrderLife
from headrace.spark.pipelines.shop.reading import ORDER, ORDER_STEP, PAYMENT, REJECTED, once, rejected_records
from headrace.spark.pipelines.shop.writing import write_records
from headrace.spark.pipelines.showing import DAY, HOUR, Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STEP_TOPICS = ("shop.orders", "shop.payments", "shop.shipments", "shop.deliveries")
PAID, STATUS, ALERTS = "shop.paid-orders", "shop.order-status", "shop.alerts"
MINUTE_MS = 60_000

ALERT = (
    "id string not null, alert string not null, order string not null, customer string, total_cents bigint, "
    "since timestamp not null, due timestamp not null"
)
ORDER_STATUS = (
    "order string not null, status string not null, customer string, total_cents bigint, placed_at timestamp, "
    "paid_at timestamp, shipped_at timestamp, delivered_at timestamp"
)
SHOWS = [
    Shown(
        PAID,
        "Paid orders",
        key=("order",),
        columns=("order", "customer", "total_cents", "method", "placed_at", "paid_at"),
        sort="-paid_at",
        plots=(
            Plot(
                "Revenue each hour, by how it was paid",
                "bars",
                x="paid_at",
                y="total_cents",
                series="method",
                scale=0.01,
                unit="EUR",
                each_s=HOUR,
            ),
        ),
    ),
    Shown(
        STATUS,
        "Orders",
        columns=("order", "status", "customer", "total_cents", "placed_at", "paid_at", "shipped_at", "delivered_at"),
        plots=(Plot("Orders, by status", "bars", x="status", unit="orders"),),
    ),
    Shown(
        ALERTS,
        "Alerts",
        key=("id",),
        columns=("alert", "order", "customer", "total_cents", "since", "due"),
        sort="-due",
        plots=(Plot("Overdue each day", "bars", x="due", series="alert", unit="orders", each_s=DAY),),
    ),
]


def payment(orders: DataFrame, payments: DataFrame, within_minutes: int = 120) -> DataFrame:
    """Every order that was placed, with its payment if there was one from then until the limit, or else with nulls and `due`.
    Both sides come once and carry watermarks. That there was none is certain, and said, when the watermark passes the limit."""
    placed = orders.select("order", "customer", "total_cents", F.col("at").alias("placed_at"))
    paid = payments.where("status = 'captured'").select(
        F.col("order").alias("paid_order"), F.col("at").alias("paid_at"), "method", "amount_cents"
    )
    limit = F.col("placed_at") + F.expr(f"interval {within_minutes} minutes")
    same = (F.col("paid_order") == F.col("order")) & F.col("paid_at").between(F.col("placed_at"), limit)
    joined = placed.join(paid, same, "leftOuter").drop("paid_order")
    return joined.withColumn("due", F.when(F.col("paid_at").isNull(), limit))


def steps(messages: DataFrame) -> DataFrame:
    """The messages of the four topics under the names of their steps. A payment that was declined is none."""
    names = F.create_map(*(F.lit(text) for pair in zip(STEP_TOPICS, STEPS, strict=True) for text in pair))
    happened = messages.where("status is null or status = 'captured'")
    return happened.withColumn("step", F.element_at(names, F.col("record.topic")))


def life(steps: DataFrame, limits: Limits) -> DataFrame:
    """What `OrderLife` says of each order: its status, or that something is overdue. The steps have a watermark on `at`; they
    may come more than once and in any order."""
    rows = steps.select("order", "step", "at", F.unix_millis("at").alias("at_ms"), "customer", "total_cents")
    said = rows.groupBy("order").transformWithState(OrderLife(limits), SAID, "Append", "EventTime")
    times = (F.timestamp_millis(f"{name}_ms").alias(f"{name}_at") for name in STEPS)
    return said.select(
        *("order", "kind", "status", "customer", "total_cents"), *times, F.timestamp_millis("due_ms").alias("due")
    )


def payment_records(payment: DataFrame) -> DataFrame:
    """The join as records: orders that were paid, and alerts."""
    paid = F.struct("order", "customer", "total_cents", "placed_at", "paid_at", "method", "amount_cents")
    contents = {
        PAID: F.when(F.col("paid_at").isNotNull(), F.to_json(paid)),
        ALERTS: F.when(F.col("paid_at").isNull(), F.to_json(_alert(F.lit("not paid"), F.col("placed_at")))),
    }
    return _records(payment, contents)


def life_records(life: DataFrame) -> DataFrame:
    """What was said of orders as records: statuses, and alerts."""
    status = F.struct("order", "status", "customer", "total_cents", *(f"{name}_at" for name in STEPS))
    since = F.when(F.col("kind") == "not shipped", F.col("paid_at")).otherwise(F.col("shipped_at"))
    contents = {
        STATUS: F.when(F.col("kind") == "status", F.to_json(status)),
        ALERTS: F.when(F.col("kind") != "status", F.to_json(_alert(F.col("kind"), since))),
    }
    return _records(life, contents)


def _alert(alert: Column, since: Column) -> Column:
    """Its id is made of what it says, of which order: the same whenever it is found again."""
    number = F.concat_ws(":", alert, "order").alias("id")
    return F.struct(number, alert.alias("alert"), "order", "customer", "total_cents", since.alias("since"), "due")


def _records(frame: DataFrame, contents: Mapping[str, Column]) -> DataFrame:
    """One record for each content that is not null. A union of two selections would run the stateful part twice."""
    each = [F.struct(F.lit(topic).alias("topic"), value.alias("value")) for topic, value in contents.items()]
    return frame.select(F.col("order").alias("key"), F.inline(F.array(*each))).where("value is not null")


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/shop.orders",
    tables: str = "sqlite:tables.db",
    pay_within_minutes: int = 2 * 60,
    ship_within_minutes: int = 48 * 60,
    deliver_within_minutes: int = 5 * 24 * 60,
    forget_after_minutes: int = 30 * 24 * 60,
    lateness: str = "4 hours",
    every: str = "1 second",
) -> list[StreamingQuery]:
    ensure_topics(bootstrap, dict.fromkeys((*STEP_TOPICS, PAID, ALERTS), PLAIN) | {STATUS: COMPACTED, REJECTED: COMPACTED})
    orders = events(spark, bootstrap, "shop.orders", ORDER)
    payments = events(spark, bootstrap, "shop.payments", PAYMENT)
    joined = payment(once(accepted(orders), lateness), once(accepted(payments), lateness), pay_within_minutes)
    # The join asks more of a message than the life does, so it has rejects of its own.
    unreadable = rejected_records(orders).unionByName(rejected_records(payments))

    messages = events(spark, bootstrap, ",".join(STEP_TOPICS), ORDER_STEP)
    limits = Limits(*(minutes * MINUTE_MS for minutes in (ship_within_minutes, deliver_within_minutes, forget_after_minutes)))
    said = life(steps(accepted(messages)).withWatermark("at", lateness), limits)

    # The statuses of an order are in one partition, so the greatest offset is the newest.
    status = (
        accepted(events(spark, bootstrap, STATUS, ORDER_STATUS)).withColumn("version", F.col("record.offset")).drop("record")
    )
    alerts = accepted(events(spark, bootstrap, ALERTS, ALERT)).drop("record")
    return [
        start(write_records(payment_records(joined).unionByName(unreadable), bootstrap), f"{checkpoint}/payment", every),
        start(
            write_records(life_records(said).unionByName(rejected_records(messages)), bootstrap), f"{checkpoint}/life", every
        ),
        start(upsert(status, tables, "shop_orders", ["order"], order_by=["version"]), f"{checkpoint}/orders", every),
        start(upsert(alerts, tables, "shop_alerts", ["id"]), f"{checkpoint}/alerts", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
