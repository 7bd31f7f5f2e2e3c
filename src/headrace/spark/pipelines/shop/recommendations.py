"""Bought together: for each product, what else its buyers take, scored and ranked as orders come.

Counted are orders, each once: how many there are, in how many a product is, in how many two products are together. From that

    lift   = together * orders / (orders with a * orders with b)     1 means by chance
    cosine = together / sqrt(orders with a * orders with b)          1 means always together

and for each product the `top` others by cosine (then together, then number), out of those that were together at least `least`
times. A new order changes the scores of products that are not in it, so the ranking is made anew from all counts after each
micro-batch: right for a catalogue of thousands of products; for millions, rank what changed and accept that other scores age.

Out come the compacted topic `shop.recommendations`, a product's list under its number, written where the list has changed, and
the table `shop_recommendations`, a row for each product and rank. Both are replaced, not added to, so a batch that is done
again after a crash changes nothing; the counts are Spark's state and exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.parsing import accepted, events, keep_rejected
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, published, start
from headrace.spark.pipelines.shop.reading import ORDER, once
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import upsert_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC = "shop.recommendations"
TABLE = "shop_recommendations"
SHOWS = [
    Shown(
        TOPIC,
        "Bought together",
        columns=("product", "recommended"),
        sort="product",
        plots=(
            Plot("Closest pairs (cosine of the best)", "ranking", x="product", y="recommended.0.cosine"),
            Plot("Orders that hold both", "ranking", x="product", y="recommended.0.together", unit="orders"),
        ),
    )
]
LARGEST_BASKET = 50  # products; an order of more says nothing about taste, and its pairs are many


def counts(orders: DataFrame) -> DataFrame:
    """How many orders hold `a` and `b`: products in the order of their numbers, twice the same for a product by itself, two
    empty texts for all orders. The orders come once."""
    basket = F.array_sort(F.array_distinct(F.filter(F.col("lines.product"), lambda product: product.isNotNull())))
    pairs = F.flatten(
        F.transform(
            "basket",
            lambda a, place: F.transform(
                F.slice("basket", place + 1, F.size("basket")), lambda b: F.struct(a.alias("a"), b.alias("b"))
            ),
        )
    )
    everything = F.array(F.struct(F.lit("").alias("a"), F.lit("").alias("b")))
    baskets = orders.select(basket.alias("basket")).where(F.size("basket").between(1, LARGEST_BASKET))
    return baskets.select(F.explode(F.concat(everything, pairs)).alias("pair")).groupBy("pair.a", "pair.b").count()


def best(counts: DataFrame, top: int = 5, least: int = 2) -> DataFrame:
    """The ranking: `product`, `rank`, `recommended`, `together`, `lift`, `cosine`."""
    total = counts.where("a = ''").select(F.col("count").alias("orders"))
    alone = counts.where("a = b and a <> ''")
    pairs = counts.where("a < b and a <> ''").where(F.col("count") >= least)
    ways = pairs.select(F.col("a").alias("product"), F.col("b").alias("recommended"), F.col("count").alias("together")).union(
        pairs.select("b", "a", "count")
    )
    scored = (
        ways.join(F.broadcast(alone.select(F.col("a").alias("product"), F.col("count").alias("with_a"))), "product")
        .join(F.broadcast(alone.select(F.col("a").alias("recommended"), F.col("count").alias("with_b"))), "recommended")
        .crossJoin(F.broadcast(total))
        .withColumn("lift", F.col("together") * F.col("orders") / (F.col("with_a") * F.col("with_b")))
        .withColumn("cosine", F.col("together") / F.sqrt(F.col("with_a") * F.col("with_b")))
    )
    order = Window.partitionBy("product").orderBy(F.desc("cosine"), F.desc("together"), "recommended")
    ranked = scored.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= top)
    return ranked.select("product", "rank", "recommended", "together", "lift", "cosine")


def lists(best: DataFrame) -> DataFrame:
    """A row for each product, as the topic has it: `product` and its `recommended`, best first."""
    one = F.struct("rank", F.col("recommended").alias("product"), "together", "lift", "cosine")
    return best.groupBy("product").agg(F.array_sort(F.collect_list(one)).alias("recommended"))


def writing(bootstrap: str, tables: str, top: int, least: int) -> Callable[[DataFrame, int], None]:
    """What is done with the counts after each micro-batch. It remembers what it wrote, to write only what changes; after a
    restart it writes everything once more. The topic goes first: whoever sees the table finds the topic no older."""
    written: dict[str, list[Row]] = {}

    def write(counted: DataFrame, batch: int) -> None:
        ranking = best(counted, top, least).collect()
        current: dict[str, list[Row]] = {}
        for row in sorted(ranking):
            current.setdefault(row["product"], []).append(row)
        changed = [row for product, rows in current.items() if written.get(product) != rows for row in rows]
        if not changed:
            return
        spark = counted.sparkSession
        frame = spark.createDataFrame(changed, RANKED)
        options = {"kafka.bootstrap.servers": bootstrap, "topic": TOPIC, "delivery": "at-least-once"}
        published(lists(frame), ["product"]).write.format("headrace").options(**options).mode("append").save()
        upsert_batch(frame, tables, TABLE, ["product", "rank"])
        written.update(current)

    return write


RANKED = "product string, rank int, recommended string, together bigint, lift double, cosine double"


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/shop.recommendations",
    tables: str = "sqlite:tables.db",
    top: int = 5,
    least: int = 2,
    lateness: str = "7 days",
    every: str = "2 seconds",
) -> list[StreamingQuery]:
    ensure_topics(bootstrap, {"shop.orders": PLAIN, TOPIC: COMPACTED})
    arriving = events(spark, bootstrap, "shop.orders", ORDER)
    counted = counts(once(accepted(arriving), lateness))
    return [
        start(
            counted.writeStream.foreachBatch(writing(bootstrap, tables, top, least)),
            f"{checkpoint}/recommendations",
            every,
            "complete",
        ),
        start(keep_rejected(arriving, tables), f"{checkpoint}/rejected", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
