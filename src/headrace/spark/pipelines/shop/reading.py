"""Reading the shop's topics: what their events look like, and each message once.

`once` is how every pipeline here deals with messages that come again. The key is the message id together with the event time,
which a message keeps however often it is sent. So an id has to be remembered only until the watermark passes its time: what
comes after that is late, and late rows are dropped whether they are new or not. No duplicate gets through, however late it is,
and the state is no larger than `lateness` allows.

What can't be read goes to the topic `shop.rejected` by the same query, exactly once: where in the log it is (that is also the
key), the value as it came, and what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.spark.pipelines.parsing import events, rejected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REJECTED = "shop.rejected"
PAGES = ("home", "search", "product", "cart", "checkout", "paid")

_MESSAGE = "id string not null, at timestamp not null"
CLICK = f"{_MESSAGE}, visitor string not null, page string not null, product string, referrer string"
ORDER = (
    f"{_MESSAGE}, order string not null, customer string not null, total_cents bigint not null, "
    "lines array<struct<product: string, quantity: int, price_cents: bigint>> not null"
)
PAYMENT = f"{_MESSAGE}, order string not null, status string not null, method string, amount_cents bigint not null"
# What orders, payments, shipments and deliveries have in common, and of each what the life of an order needs.
ORDER_STEP = f"{_MESSAGE}, order string not null, customer string, total_cents bigint, status string"


def clicks(spark: SparkSession, bootstrap: str) -> DataFrame:
    return events(spark, bootstrap, "shop.clicks", CLICK, checks={"no page of the shop": F.col("page").isin(*PAGES)})


def once(messages: DataFrame, lateness: str) -> DataFrame:
    """Every message once, and none that is more than `lateness` older than the newest."""
    return messages.withWatermark("at", lateness).dropDuplicates(["id", "at"])


def rejected_records(parsed: DataFrame) -> DataFrame:
    """What was rejected, as records of the topic `shop.rejected`."""
    place = F.concat_ws("/", "topic", "partition", "offset")
    said = F.to_json(F.struct("topic", "partition", "offset", "value", "fault"))
    return rejected(parsed).select(place.alias("key"), said.alias("value"), F.lit(REJECTED).alias("topic"))
