"""The funnel: of the visitors who came in an hour, how many saw a product, filled a cart, went to checkout, and paid.

Exactly: a visitor *enters* in a window with their first click on `home` or `search` in it. They reach `product` with the first
product page at or after that, `cart` with the first cart at or after reaching `product`, and so on, all of it no later than
`within_minutes` after entering. Each visitor counts once in each window they enter, under the time of entering, also if they go
on in the next window.

How it is computed: a click matters to the window it is in and to those that began up to `within_minutes` before, so it is put
into *hopping* windows as long as both together, one step apart. In each, every visitor's clicks are gathered and walked through
once the watermark has passed its end; then the visitors are counted. What is written is final. Out come the topic `shop.funnel`
(exactly once) and, from that topic, the table `shop_funnel`; `funnel_chart` draws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark import submit
from headrace.spark.pipelines.parsing import accepted, events
from headrace.spark.pipelines.publishing import COMPACTED, PLAIN, ensure_topics, start
from headrace.spark.pipelines.shop.reading import REJECTED, clicks, once, rejected_records
from headrace.spark.pipelines.shop.writing import records, write_records
from headrace.spark.pipelines.showing import Plot, Shown
from headrace.spark.tables import upsert

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC = "shop.funnel"
TABLE = "shop_funnel"
FUNNEL = (
    "began timestamp not null, ended timestamp not null, place int not null, step string not null, "
    "visitors bigint not null, of_entered double not null, of_previous double"
)
STEPS = ("entered", "product", "cart", "checkout", "paid")
SHOWS = [
    Shown(
        TOPIC,
        "Funnel",
        key=("began", "step"),
        columns=("began", "ended", "place", "step", "visitors", "of_entered", "of_previous"),
        sort="-began",
        plots=(
            Plot("The newest window", "bars", x="step", y="visitors", unit="visitors", order="place", newest="began"),
            Plot("Paid, of those who entered", "lines", x="began", y="of_entered", unit="%", scale=100, where={"step": "paid"}),
        ),
    )
]


def walks(clicks: DataFrame, window_minutes: int = 60, within_minutes: int = 60) -> DataFrame:
    """One row for each visitor and each window they entered: `hop` (the hopping window), `visitor`, `reached` (1 to 5 steps).
    The clicks come once and carry a watermark."""
    hops = F.window("at", f"{window_minutes + within_minutes} minutes", f"{window_minutes} minutes")
    gathered = clicks.groupBy(hops.alias("hop"), "visitor").agg(
        # Of clicks at the same time, those of earlier steps come first: sorted by time, then place.
        F.array_sort(F.collect_list(F.struct("at", _place(F.col("page")).alias("place")))).alias("trail")
    )
    enters_before = F.col("hop.start") + F.expr(f"interval {window_minutes} minutes")
    within = F.expr(f"interval {within_minutes} minutes")

    def walk(so_far: Column, click: Column) -> Column:
        entered, reached = so_far["entered"], so_far["reached"]
        enters = (reached == 0) & (click["place"] == 1) & (click["at"] < enters_before)
        goes_on = (reached > 0) & (click["place"] == reached + 1) & (click["at"] <= entered + within)
        step = F.struct(F.when(enters, click["at"]).otherwise(entered).alias("entered"), (reached + 1).alias("reached"))
        return F.when(enters | goes_on, step).otherwise(so_far)

    nowhere = F.struct(F.lit(None).cast("timestamp").alias("entered"), F.lit(0).alias("reached"))
    return gathered.select("hop", "visitor", F.aggregate("trail", nowhere, walk)["reached"].alias("reached")).where(
        "reached > 0"
    )


def _place(page: Column) -> Column:
    place = F.when(page.isin("home", "search"), 1)
    for number, step in enumerate(STEPS[1:], start=2):
        place = place.when(page == step, number)
    return place


def funnel(walks: DataFrame, window_minutes: int = 60) -> DataFrame:
    """One row for each window and step: how many visitors reached it, as a part of all who entered and of the step before."""
    places = range(1, len(STEPS) + 1)
    counted = walks.groupBy("hop").agg(*(F.count_if(F.col("reached") >= place).alias(f"v{place}") for place in places))
    steps = [
        F.struct(
            F.lit(place).alias("place"),
            F.lit(STEPS[place - 1]).alias("step"),
            F.col(f"v{place}").alias("visitors"),
            (F.col(f"v{place}") / F.col("v1")).alias("of_entered"),
            F.try_divide(F.col(f"v{place}"), F.col(f"v{max(place - 1, 1)}")).alias("of_previous"),
        )
        for place in places
    ]
    ended = F.col("hop.start") + F.expr(f"interval {window_minutes} minutes")
    return counted.select(
        F.col("hop.start").alias("began"), ended.alias("ended"), F.explode(F.array(*steps)).alias("one")
    ).select("began", "ended", "one.*")


def pipeline(
    spark: SparkSession,
    *,
    bootstrap: str = "127.0.0.1:9092",
    checkpoint: str = "checkpoints/shop.funnel",
    tables: str = "sqlite:tables.db",
    window_minutes: int = 60,
    within_minutes: int = 60,
    lateness: str = "10 minutes",
    every: str = "1 second",
) -> list[StreamingQuery]:
    ensure_topics(bootstrap, {"shop.clicks": PLAIN, TOPIC: PLAIN, REJECTED: COMPACTED})
    arriving = clicks(spark, bootstrap)
    counted = funnel(walks(once(accepted(arriving), lateness), window_minutes, within_minutes), window_minutes)
    out = records(counted, TOPIC, ["began"]).unionByName(rejected_records(arriving))
    written = accepted(events(spark, bootstrap, TOPIC, FUNNEL)).drop("record")
    return [
        start(write_records(out, bootstrap), f"{checkpoint}/funnel", every),
        start(upsert(written, tables, TABLE, ["began", "place"]), f"{checkpoint}/table", every),
    ]


if __name__ == "__main__":
    submit(pipeline)
