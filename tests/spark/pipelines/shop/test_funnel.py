"""The funnel against plain Python: order of the steps, limits, duplicates, late clicks, and a restart."""

from datetime import timedelta
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn
from tests.spark.pipelines.shop import oracle

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.events import CLICKS, START, happenings
from headrace.spark.pipelines.shop.funnel import SHOWS, pipeline

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
LATENESS = 10 * MINUTE

pytestmark = pytest.mark.timeout(400)  # Spark takes its time on a busy machine


def walk(visitor, *steps):
    for number, (at, page) in enumerate(steps):
        value = {"id": f"{visitor}-{number}", "at": oracle.text(at), "visitor": visitor, "page": page}
        yield Happening(CLICKS, visitor, {**value, "product": None, "referrer": None}, at)


def test_the_funnel_is_that_of_plain_python_with_late_and_repeated_clicks_and_a_restart(shop):
    generated = [one for one in islice(happenings(seed=11), 1100) if one.topic == CLICKS]
    half = len(generated) // 2
    newest = max(one.at for one in generated[:half])
    at = START + HOUR - MINUTE  # the window ends in a minute
    whole = ("home", "product", "cart", "checkout", "paid")
    by_hand = [
        *walk("all at once", *((at, page) for page in reversed(whole))),
        *walk("into the next window", *((at + number * 10 * MINUTE, page) for number, page in enumerate(whole))),
        *walk("just in time", (at, "home"), (at + HOUR, "product")),
        *walk("too slow", (at, "home"), (at + HOUR + timedelta(milliseconds=1), "product")),
        *walk("wrong way round", (at - 3 * MINUTE, "cart"), (at - 2 * MINUTE, "search"), (at, "product")),
        *walk("not by the door", (at - MINUTE, "product"), (at, "cart")),
    ]
    twice = list(walk("twice", (newest - MINUTE, "home"), (newest, "product")))
    first = [*generated[:half], *by_hand, *twice, *twice]
    newest = max(one.at for one in first)
    second = [
        *generated[half:],
        *twice,
        *walk("late, but not too late", (newest - 9 * MINUTE, "home"), (newest - 8 * MINUTE, "product")),
        *walk("too late", (newest - LATENESS, "home"), (newest - LATENESS - MINUTE, "product")),
        *walk("pushes the watermark", (START + timedelta(days=30), "home")),
    ]
    gate = oracle.Gate(LATENESS, [{CLICKS}])
    counted = []
    for chunk in (first, second):
        counted += gate.through(chunk)
        shop.feed(chunk)
        shop.run(pipeline)
    expected = oracle.funnel(counted, HOUR, HOUR, gate.watermark)
    assert gate.late > 2
    assert gate.repeated > 4
    assert len(expected) >= 10
    assert shop.table("shop_funnel") == expected
    in_topic = sorted((value for _, value in shop.topic("shop.funnel")), key=lambda one: (one["began"], one["place"]))
    for one in expected:
        one["began"], one["ended"] = oracle.text(one["began"]), oracle.text(one["ended"])
        if one["of_previous"] is None:
            del one["of_previous"]  # JSON written by Spark leaves nulls out
    assert in_topic == expected
    assert_drawn(SHOWS, lambda topic: [value for _, value in shop.topic(topic)])
