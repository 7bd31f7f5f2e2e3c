"""Trending products against plain Python: sliding windows, a stream–table join, late and repeated clicks, and a restart."""

from datetime import timedelta
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn
from tests.spark.pipelines.shop import oracle

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.events import CLICKS, PRODUCTS, happenings
from headrace.spark.pipelines.shop.trending import SHOWS, pipeline

MINUTE, MOMENT = timedelta(minutes=1), timedelta(milliseconds=1)
LATENESS = 10 * MINUTE

pytestmark = pytest.mark.timeout(400)  # Spark takes its time on a busy machine


def look(number, at, product):
    value = {"id": f"by-hand-{number}", "at": oracle.text(at), "visitor": f"visitor {number}", "page": "product"}
    return Happening(CLICKS, f"visitor {number}", {**value, "product": product, "referrer": None}, at)


def test_trending_products_are_those_of_plain_python_with_late_and_repeated_clicks_and_a_restart(shop):
    generated = list(islice(happenings(seed=4), 700))
    clicks = [one for one in generated if one.topic == CLICKS]
    catalogue = [one for one in generated if one.topic == PRODUCTS]
    half = len(clicks) // 2
    newest = max(one.at for one in clicks[:half])
    watermark = newest - LATENESS
    again = look(1, newest, "P-101")
    first = [*clicks[:half], again, again]
    second = [
        *clicks[half:],
        again,
        look(2, watermark + MOMENT, "P-101"),
        look(3, watermark, "P-101"),
        look(4, newest, "nobody announced it"),
    ]
    shop.feed(catalogue)
    gate = oracle.Gate(LATENESS, [{CLICKS}])
    counted = []
    for chunk in (first, second):
        counted += gate.through(chunk)
        shop.feed(chunk)
        shop.run(pipeline)
    names = {one.value["product"]: one.value for one in catalogue}
    expected = oracle.trending(counted, 60 * MINUTE, 10 * MINUTE, names)
    assert gate.late >= 1
    assert gate.repeated >= 2
    assert shop.table("shop_trending") == expected
    in_topic = dict(shop.topic("shop.trending"))
    assert sorted((one["product"], one["looks"], one["visitors"]) for one in in_topic.values()) == sorted(
        (one["product"], one["looks"], one["visitors"]) for one in expected
    )
    assert_drawn(SHOWS, lambda topic: [value for _, value in shop.topic(topic)])
