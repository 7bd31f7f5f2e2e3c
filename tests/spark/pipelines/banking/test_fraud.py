"""Fraud alerts over three runs from one checkpoint, against plain Python: duplicates, late payments, customers that change."""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice

from tests.spark.pipelines.banking.fraud_oracle import expected_alerts
from tests.spark.pipelines.drawing import assert_drawn

from headrace.spark.pipelines.banking.events import CUSTOMERS, START, TRANSACTIONS, happenings
from headrace.spark.pipelines.banking.fraud import SHOWS, pipeline
from headrace.spark.pipelines.happening import Happening

PLACES = {"Berlin": (52.52, 13.405), "Tokyo": (35.677, 139.65)}


def customer(id, name, city):
    return Happening(CUSTOMERS, id, {"id": id, "version": 1, "name": name, "city": city, "at": "2026-01-01T00:00:00Z"}, START)


def payment(id, at, customer="C-hand", city=None, amount="-10.00"):
    lat, lon = PLACES.get(city, (None, None))
    value = {"id": id, "account": f"A-{customer}", "customer": customer, "kind": "card", "amount": amount, "currency": "EUR"}
    value |= {"merchant": "shop", "category": "leisure", "city": city, "lat": lat, "lon": lon, "counterparty": None}
    return Happening(TRANSACTIONS, customer, {**value, "at": at.isoformat(), "booked": at.isoformat()}, at)


def names_and_homes(feeds):
    """As of each run: the newest state of every customer."""
    known = {}
    for feed in feeds:
        known |= {one.value["id"]: (one.value["name"], one.value["city"]) for one in feed if one.topic == CUSTOMERS}
        yield dict(known)


def test_alerts_are_those_of_plain_python_with_late_and_repeated_payments_and_restarts(bank):
    delivered = list(islice(happenings(seed=12, customers=25), 2400))
    third = len(delivered) // 3
    feeds = [delivered[:third], delivered[third : 2 * third], delivered[2 * third :]]
    newest = [max(one.at for one in feed) for feed in feeds]
    minute = timedelta(minutes=1)
    # A burst whose middle comes with the next run, with some of it once more; and a journey, back in time.
    burst = [payment(f"b{number}", newest[0] + number * minute) for number in range(5)]
    feeds[0] += [customer("C-hand", "By Hand", "Berlin"), burst[0], burst[1], burst[3], burst[3], burst[4]]
    feeds[1] += [burst[0], burst[4], customer("C-hand", "By Hand", "Paris"), burst[2], burst[2]]
    feeds[1] += [payment("t1", newest[1], city="Berlin"), payment("t3", newest[1] + 90 * minute, city="Berlin")]
    feeds[2] += [payment("t2", newest[1] + 45 * minute, city="Tokyo")]
    # Later than a day: Spark's watermark and the customer's own history agree that it is too late.
    too_late = payment("x", newest[0] - timedelta(days=3), city="Tokyo")
    feeds[2] += [too_late, payment("n1", newest[2], "C-nobody", "Berlin"), payment("n2", newest[2], "C-nobody", "Tokyo")]
    for feed, queries in zip(feeds, (1, 1, 2), strict=True):
        bank.feed(feed)
        bank.run(pipeline, queries)

    expected = expected_alerts([one.value for feed in feeds for one in feed if one.topic == TRANSACTIONS])
    assert {("C-hand", "velocity", "b2", None), ("C-hand", "travel", "t2", "t1")} <= set(expected)
    assert {rule for _, rule, _, _ in expected} == {"velocity", "travel", "amount"}
    table = bank.table("alerts")
    assert sorted((one["customer"], one["rule"], one["payment"], one["other"]) for one in table) == sorted(
        expected, key=lambda one: one[:3]
    )
    in_topic = bank.topic("bank.alerts")
    assert sorted(one["id"] for one in in_topic) == sorted(f"{rule}:{id}" for _, rule, id, _ in expected)
    assert bank.dropped == 1

    values = {one.value["id"]: one.value for feed in feeds for one in feed if one.topic == TRANSACTIONS}
    run_of = {}
    for number, feed in enumerate(feeds):
        for one in feed:
            run_of.setdefault(one.value["id"], number)
    known = list(names_and_homes(feeds))
    for alert in table:
        value = values[alert["payment"]]
        name, home = known[run_of[alert["payment"]]].get(alert["customer"], (None, None))
        assert (alert["name"], alert["home"]) == (name, home), alert
        assert (alert["amount"], alert["at"]) == (-Decimal(value["amount"]), datetime.fromisoformat(value["at"]))
        assert (alert["account"], alert["merchant"], alert["city"]) == (value["account"], value["merchant"], value["city"])
    hand = {alert["payment"]: alert["home"] for alert in table if alert["customer"] == "C-hand"}
    assert hand == {"b2": "Paris", "t2": "Paris"}  # who moved between the runs
    assert_drawn(SHOWS, bank.topic)


def test_who_stays_away_is_forgotten_and_who_comes_back_in_time_is_remembered(bank):
    usual = [payment(f"{who}{hour}", START + timedelta(hours=hour), who) for hour in range(12) for who in ("away", "back")]
    bank.feed(usual)
    bank.run(pipeline, queries=1, forget_days=5)
    # Time goes on for others; timers go off in the micro-batch without data that follows.
    days = [timedelta(days=number) for number in range(10)]
    bank.feed([payment("in time", START + days[3], "back"), payment("other", START + days[7], "other")])
    bank.run(pipeline, queries=1, forget_days=5)
    bank.feed([payment("unusual", START + days[7], who, amount="-9000.00") for who in ("away", "back")])
    bank.run(pipeline, queries=1, forget_days=5)
    assert [(one["rule"], one["customer"], one["why"]) for one in bank.topic("bank.alerts")] == [
        ("amount", "back", "9000.00 where 10.00 is usual")
    ]
