"""Sessions against plain Python: duplicates, late clicks, two runs from one checkpoint."""

from datetime import timedelta
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn
from tests.spark.pipelines.shop import oracle

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.events import CLICKS, START, happenings
from headrace.spark.pipelines.shop.sessions import SHOWS, pipeline

GAP = timedelta(minutes=30)
LATENESS = timedelta(minutes=10)
MINUTE, MOMENT = timedelta(minutes=1), timedelta(milliseconds=1)

pytestmark = pytest.mark.timeout(400)  # Spark takes its time on a busy machine


def click(number, visitor, at, page="product", product=None):
    value = {"id": f"by-hand-{number}", "at": oracle.text(at), "visitor": visitor, "page": page}
    return Happening(CLICKS, visitor, {**value, "product": product, "referrer": None}, at)


def test_sessions_are_those_of_plain_python_with_late_and_repeated_clicks_and_a_restart(shop):
    generated = [one for one in islice(happenings(seed=5), 900) if one.topic == CLICKS]
    half = len(generated) // 2
    newest = max(one.at for one in generated[:half])
    watermark = newest - LATENESS
    twice = click(1, "twice", newest - 5 * MINUTE, "cart", "P-1")
    first = [
        *generated[:half],
        *(twice, twice),
        *(click(2, "bridge", newest - 35 * MINUTE), click(3, "bridge", newest)),
        *(click(4, "gap", newest - 60 * MINUTE), click(5, "gap", newest - 30 * MINUTE), click(6, "gap", newest)),
        *(click(7, "more", newest - 30 * MINUTE - MOMENT), click(8, "more", newest)),
    ]
    second = [
        *generated[half:],
        twice,
        click(9, "bridge", newest - 6 * MINUTE),
        click(10, "at the watermark", watermark),
        click(11, "just above it", watermark + MOMENT),
        click(4, "gap", newest - 60 * MINUTE),  # once more, when it has long been counted
        click(12, "far too late", newest - 60 * MINUTE),
        click(13, "pushes the watermark", START + timedelta(days=30)),
    ]
    shop.feed_text(CLICKS, "not JSON at all")
    shop.feed(first)
    shop.run(pipeline)
    shop.feed(second)
    shop.run(pipeline)

    gate = oracle.Gate(LATENESS, [{CLICKS}])
    counted = [*gate.through(first), *gate.through(second)]
    expected = oracle.sessions(counted, GAP, gate.watermark)
    assert gate.late > 3
    assert gate.repeated > 10
    visitors = [session["visitor"] for session in expected]
    assert visitors.count("bridge") == 1  # the click that came late made one session of two
    assert visitors.count("twice") == visitors.count("just above it") == 1
    assert visitors.count("more") == 2
    assert not {"at the watermark", "far too late", "pushes the watermark"} & set(visitors)
    assert shop.table("shop_sessions") == expected
    in_topic = sorted((value for _, value in shop.topic("shop.sessions")), key=lambda one: (one["visitor"], one["began"]))
    for session in expected:
        session["began"], session["ended"] = oracle.text(session["began"]), oracle.text(session["ended"])
        if session["referrer"] is None:
            del session["referrer"]  # JSON written by Spark leaves nulls out
    assert in_topic == expected
    [(place, bad)] = shop.topic("shop.rejected")
    assert (place, bad["value"]) == (f"shop.clicks/{bad['partition']}/{bad['offset']}", "not JSON at all")
    assert bad["fault"] == "not a JSON object of the expected form"
    assert_drawn(SHOWS, lambda topic: [value for _, value in shop.topic(topic)])
