"""Recommendations against plain Python: orders that come twice or too late, before and after a restart."""

from datetime import timedelta
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn
from tests.spark.pipelines.shop import oracle

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.events import ORDERS, happenings
from headrace.spark.pipelines.shop.recommendations import LARGEST_BASKET, SHOWS, pipeline

LATENESS = timedelta(days=7)

pytestmark = pytest.mark.timeout(400)  # Spark takes its time on a busy machine


def order(number, at, *products):
    lines = [{"product": product, "quantity": 1, "price_cents": 100} for product in products]
    value = {"id": f"by-hand-{number}", "at": oracle.text(at), "order": f"H-{number}", "customer": "V", "lines": lines}
    return Happening(ORDERS, f"H-{number}", {**value, "total_cents": 100 * len(lines)}, at)


def as_rows(lists):
    """The rows of the table, in the order of its key."""
    return [
        {
            "product": product,
            "rank": one["rank"],
            "recommended": one["product"],
            **{name: one[name] for name in ("together", "lift", "cosine")},
        }
        for product, others in sorted(lists.items())
        for one in others
    ]


def test_recommendations_are_those_of_plain_python_with_late_and_repeated_orders_and_a_restart(shop):
    generated = [one for one in islice(happenings(seed=2), 9000) if one.topic == ORDERS]
    half = len(generated) // 2
    newest = max(one.at for one in generated[:half])
    watermark = newest - LATENESS
    pair = order(1, newest, "P-a", "P-b", "P-a")
    first = [*generated[:half], pair, pair, order(2, newest, "P-a", "P-b", "P-c"), order(3, newest, "P-c")]
    first.append(order(4, newest, *(f"P-{number}" for number in range(LARGEST_BASKET + 1))))
    second = [
        *generated[half:],
        pair,
        order(5, watermark, "P-a", "P-c"),
        order(6, watermark + timedelta(milliseconds=1), "P-c", "P-a"),
        order(7, newest, "P-a", "P-c"),
    ]
    gate = oracle.Gate(LATENESS, [{ORDERS}])
    counted = []
    for chunk in (first, second):
        counted += gate.through(chunk)
        shop.feed(chunk)
        shop.run(pipeline, top=3)
        usual = [one for one in counted if len(one.value["lines"]) <= LARGEST_BASKET]
        expected = oracle.recommendations(usual, top=3, least=2)
        assert shop.table("shop_recommendations") == as_rows(expected)
        newest_lists = dict(shop.topic("shop.recommendations"))
        assert newest_lists == {product: {"product": product, "recommended": best} for product, best in expected.items()}
    assert gate.late == 1
    assert gate.repeated >= 2
    assert [one["product"] for one in expected["P-a"]] == ["P-c", "P-b"]
    assert_drawn(SHOWS, lambda topic: [value for _, value in shop.topic(topic)])
