"""The dashboard against plain Python: tumbling and sliding windows, watermark, late and repeated payments, restarts."""

import re
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice

from tests.spark.pipelines.drawing import assert_drawn

from headrace.spark.pipelines.banking.dashboard import SHOWS, pipeline
from headrace.spark.pipelines.banking.events import START, TRANSACTIONS, happenings
from headrace.spark.pipelines.happening import Happening

MINUTE = timedelta(minutes=1)
LATENESS = 10 * MINUTE


def payment(id, at, category="leisure", merchant="Book Nook", amount="-1.25", booked=None):
    value = {"id": id, "account": "A1", "customer": "C1", "kind": "card", "amount": amount, "currency": "EUR"}
    value |= {"merchant": merchant, "category": category, "at": at.isoformat(), "booked": (booked or at).isoformat()}
    return Happening(TRANSACTIONS, "C1", value, at)


def moment(text):
    return datetime.fromisoformat(text)


def floor(at, size=MINUTE):
    return at - (at - datetime(1970, 1, 1, tzinfo=at.tzinfo)) % size


class Panels:
    """What the panels show, kept as people would with pencil and paper."""

    def __init__(self):
        self.cells = defaultdict(list)
        self.seen, self.seen_late = set(), set()
        self.newest = None
        self.dropped = 0

    def run(self, values):
        """What came before this run decides what is too late in it."""
        closed = None if self.newest is None else self.newest - LATENESS
        for value in values:
            if value["kind"] != "card":
                continue
            at, booked = moment(value["at"]), moment(value["booked"])
            if booked - at > LATENESS and value["id"] not in self.seen_late:
                self.seen_late.add(value["id"])
                self._add("late", floor(booked), MINUTE, "late", value)
            self.newest = max(self.newest or at, at)
            if closed is not None and at <= closed:
                self.dropped += 1
            elif value["id"] not in self.seen:
                self.seen.add(value["id"])
                self._add("minute", floor(at), MINUTE, value["category"], value)
                for back in range(5):
                    self._add("five minutes", floor(at) - back * MINUTE, 5 * MINUTE, value["merchant"], value)

    def _add(self, panel, start, size, name, value):
        self.cells[panel, start, start + size, name].append(-Decimal(value["amount"]))

    def rows(self):
        return [
            {
                **dict(zip(("panel", "start", "end", "name"), key, strict=True)),
                "currency": "EUR",
                "payments": len(amounts),
                "volume": sum(amounts),
            }
            for key, amounts in sorted(self.cells.items())
        ]


def test_panels_are_those_of_plain_python_with_late_and_repeated_payments_and_restarts(bank):
    generated = [one for one in islice(happenings(seed=4, customers=200), 1500) if one.topic == TRANSACTIONS]
    half = len(generated) // 2
    feeds = [generated[:half], generated[half:]]
    closed = max(one.at for one in feeds[0] if one.value["kind"] == "card") - LATENESS
    instant = timedelta(milliseconds=1)
    edges = [
        payment("at the watermark", closed),
        payment("just after it", closed + instant),
        payment("just after it", closed + instant),
        payment("long before it", START, booked=closed),
    ]
    feeds[1] = [*edges, *feeds[1], *edges, *feeds[0][-20:]]
    panels = Panels()
    for feed, queries in zip(feeds, (3, 4), strict=True):
        bank.feed(feed)
        bank.run(pipeline, queries, picture=f"{bank.folder}/dashboard.html")
        panels.run([one.value for one in feed])

    expected = panels.rows()
    assert panels.dropped > 5
    assert [row["payments"] for row in expected if row["panel"] == "late"]
    assert bank.table("dashboard") == expected
    newest = {}
    for value in bank.topic("bank.dashboard"):
        newest[value["panel"], moment(value["start"]), value["name"]] = (value["payments"], Decimal(value["volume"]))
    assert newest == {(row["panel"], row["start"], row["name"]): (row["payments"], row["volume"]) for row in expected}
    # Both windowed queries drop the same ones, before they look whether they know them.
    assert bank.dropped == 2 * panels.dropped
    drawn = (bank.folder / "dashboard.html").read_text()
    last_hour = [row for row in expected if row["start"] >= max(row["start"] for row in expected) - 60 * MINUTE]
    shown = sum(row["payments"] for row in last_hour if row["panel"] == "minute")
    assert re.search(rf"<p>{shown} card payments in the last hour", drawn)
    assert_drawn(SHOWS, bank.topic)
