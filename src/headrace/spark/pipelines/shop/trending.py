"""Trending products: how many visitors looked at each product in the last hour, every ten minutes.

Sliding windows: a look counts in each window that it is in, six by default, and a visitor once for each product and window. A
window's numbers are written while it is open and replaced as looks come, also late ones, until the watermark has passed its
end. Out come the compacted topic `shop.trending`, with names and categories from the compacted topic `shop.products`, and from
it the table `shop_trending`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.parsing import accepted, events, keep_rejected, past_events
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, publish_changes, start
from headrace.spark.pipelines.shop.reading import clicks, once
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC = "shop.trending"
TABLE = "shop_trending"
KEY = ("began", "product")
PRODUCT = "id string not null, at timestamp not null, product string not null, name string not null, category string"
TRENDING = (
    "product string not null, began timestamp not null, ended timestamp not null, looks bigint not null, "
    "visitors int not null, name string, category string"
)
SHOWS = [
    Shown(
        TOPIC,
        "Trending products",
        key=KEY,
        columns=("began", "ended", "product", "name", "category", "looks", "visitors"),
        sort="-began",
        plots=(
            Plot(
                "Visitors of the last full window", "ranking", x="name", y="visitors", unit="visitors", newest="began", back=5
            ),
            Plot("Looks in each window, by category", "bars", x="began", y="looks", unit="looks", series="category"),
        ),
    )
]


def trending(clicks: DataFrame, window_minutes: int = 60, every_minutes: int = 10) -> DataFrame:
    """`began`, `ended`, `product`, `looks`, `visitors`. The clicks come once and carry a watermark."""
    windows = F.window("at", f"{window_minutes} minutes", f"{every_minutes} minutes")
    looks = clicks.where("page = 'product' and product is not null")
    counted = looks.groupBy(windows.alias("window"), "product").agg(
        F.count("*").alias("looks"), F.size(F.collect_set("visitor")).alias("visitors")
    )
    return counted.select(
        F.col("window.start").alias("began"), F.col("window.end").alias("ended"), "product", "looks", "visitors"
    )


def named(trending: DataFrame, products: DataFrame) -> DataFrame:
    """With `name` and `category`, which are null for a product that nobody has announced."""
    return trending.join(F.broadcast(products), "product", "left")


def products(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The catalogue as it is now: the newest state of each product. Joined with a stream, it is read in every micro-batch."""
    states = accepted(past_events(spark, bootstrap, "shop.products", PRODUCT))
    newest = F.max(F.struct("record.offset", "name", "category")).alias("newest")  # a product's states are in one partition
    return states.groupBy("product").agg(newest).select("product", "newest.name", "newest.category")


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/shop.trending",
    tables: str = "sqlite:tables.db",
    window_minutes: int = 60,
    every_minutes: int = 10,
    lateness: str = "10 minutes",
    every: str = "1 second",
) -> list[StreamingQuery]:
    ensure_topics(bootstrap, {"shop.clicks": PLAIN, "shop.products": COMPACTED, TOPIC: COMPACTED})
    arriving = clicks(spark, bootstrap)
    counted = trending(once(accepted(arriving), lateness), window_minutes, every_minutes)
    found = named(counted, products(spark, bootstrap))
    written = accepted(events(spark, bootstrap, TOPIC, TRENDING)).drop("record")
    return [
        start(publish_changes(found, bootstrap, TOPIC, KEY), f"{checkpoint}/trending", every, "update"),
        # Of a window that is counted again the greater numbers are the newer ones.
        start(upsert(written, tables, TABLE, KEY, order_by=["looks"]), f"{checkpoint}/table", every),
        start(keep_rejected(arriving, tables), f"{checkpoint}/rejected", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
