"""Clickstream sessions: what each visit saw, how long it took, and whether it ended in a purchase.

A session is the clicks of one visitor with less than `gap` between them. It is over, and written, when the watermark has passed
its last click by `gap`; then it is final. Out come the topic `shop.sessions` (exactly once) and, from that topic, the table
`shop_sessions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.parsing import accepted, events
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, start
from headrace.spark.pipelines.shop.reading import REJECTED, clicks, once, rejected_records
from headrace.spark.pipelines.shop.writing import records, write_records
from headrace.spark.pipelines.showing import HOUR, Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC = "shop.sessions"
TABLE = "shop_sessions"
SESSION = (
    "visitor string not null, began timestamp not null, ended timestamp not null, duration_ms bigint not null, "
    "clicks bigint not null, pages array<string>, products array<string>, referrer string, purchased boolean not null"
)
SHOWS = [
    Shown(
        TOPIC,
        "Sessions",
        key=("visitor", "began"),
        columns=("began", "ended", "visitor", "clicks", "duration_ms", "purchased", "referrer", "pages", "products"),
        sort="-began",
        plots=(
            Plot("Sessions each hour, by whether they ended in a purchase", "bars", x="began", series="purchased", each_s=HOUR),
            Plot("Sessions, by where they came from", "ranking", x="referrer"),
        ),
    )
]


def sessions(clicks: DataFrame, gap: str = "30 minutes") -> DataFrame:
    """One row for each session of clicks that come once and carry a watermark."""
    trails = clicks.groupBy("visitor", F.session_window("at", gap)).agg(
        F.min("at").alias("began"),
        F.max("at").alias("ended"),
        F.count("*").alias("clicks"),
        F.array_sort(F.collect_list(F.struct("at", "id", "page", "product", "referrer"))).alias("trail"),
    )
    products = F.filter(F.col("trail.product"), lambda product: product.isNotNull())
    return trails.select(
        "visitor",
        "began",
        "ended",
        (F.unix_millis("ended") - F.unix_millis("began")).alias("duration_ms"),
        "clicks",
        F.col("trail.page").alias("pages"),
        F.array_sort(F.array_distinct(products)).alias("products"),
        F.col("trail")[0]["referrer"].alias("referrer"),
        F.array_contains(F.col("trail.page"), "paid").alias("purchased"),
    )


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/shop.sessions",
    tables: str = "sqlite:tables.db",
    gap: str = "30 minutes",
    lateness: str = "10 minutes",
    every: str = "1 second",
) -> list[StreamingQuery]:
    ensure_topics(bootstrap, {"shop.clicks": PLAIN, TOPIC: PLAIN, REJECTED: COMPACTED})
    arriving = clicks(spark, bootstrap)
    found = sessions(once(accepted(arriving), lateness), gap)
    out = records(found, TOPIC, ["visitor"]).unionByName(rejected_records(arriving))
    written = accepted(events(spark, bootstrap, TOPIC, SESSION)).drop("record")
    return [
        start(write_records(out, bootstrap), f"{checkpoint}/sessions", every),
        start(upsert(written, tables, TABLE, ["visitor", "began"]), f"{checkpoint}/table", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
