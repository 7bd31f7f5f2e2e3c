"""The rules of fraud detection by themselves: at their edges, with late and repeated payments, and how often they are right."""

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from itertools import islice

import pytest
from tests.spark.pipelines.banking.fraud_oracle import expected_alerts

from headrace.spark.pipelines.banking.events import TRANSACTIONS, labelled
from headrace.spark.pipelines.banking.suspicion import HOUR_MS, MINUTE_MS, History, Limits, Payment, distance_km, judge

BERLIN, PARIS, TOKYO = ("Berlin", 52.52, 13.405), ("Paris", 48.857, 2.352), ("Tokyo", 35.677, 139.65)
USUAL = Limits()
NOON = 500_000 * HOUR_MS


def paid(number, minutes=0.0, place=(None, None, None), cents=1000):
    return Payment(NOON + int(minutes * MINUTE_MS), f"p{number}", "A1", cents, "shop", *place)


def judged(payments, limits=USUAL, history=None):
    history = history or History()
    return [(one.rule, one.payment.id, one.other) for payment in payments for one in judge(history, payment, limits)]


def test_the_fifth_payment_within_ten_minutes_is_a_burst_and_the_next_ones_are_the_same_burst():
    assert judged([paid(number, number * 2.4) for number in range(9)]) == [("velocity", "p4", None)]
    assert judged([paid(number, number * 2.5) for number in range(9)]) == []


def test_a_second_burst_is_alerted_again():
    payments = [paid(number, number) for number in range(5)] + [paid(10 + number, 60 + number) for number in range(5)]
    assert judged(payments) == [("velocity", "p4", None), ("velocity", "p14", None)]


def test_a_late_payment_completes_a_burst_in_the_past():
    burst = [paid(number, number) for number in (0, 1, 3, 4)]
    assert judged([*burst, paid(9, 300), paid(2, 2)]) == [("velocity", "p2", None)]


def test_a_duplicate_is_no_payment_of_its_own():
    payments = [paid(number, number) for number in range(4)]
    assert judged([*payments, *payments, *payments]) == []


def test_travel_is_impossible_when_no_plane_flies_that_fast():
    assert distance_km(*BERLIN[1:], *PARIS[1:]) == pytest.approx(878, abs=2)
    assert judged([paid(1, 0, BERLIN), paid(2, 52, PARIS)]) == [("travel", "p2", "p1")]
    assert judged([paid(1, 0, BERLIN), paid(2, 53, PARIS)]) == []


def test_two_places_at_the_same_time_are_impossible():
    assert judged([paid(1, 0, BERLIN), paid(2, 0, TOKYO)]) == [("travel", "p2", "p1")]


def test_payments_on_the_web_are_nowhere():
    assert judged([paid(1, 0, BERLIN), paid(2, 10), paid(3, 20, TOKYO)]) == [("travel", "p3", "p1")]


def test_a_late_payment_is_compared_with_what_came_after_it():
    assert judged([paid(1, 0, BERLIN), paid(3, 120, BERLIN), paid(2, 100, TOKYO)]) == [("travel", "p2", "p1")]
    assert judged([paid(3, 120, BERLIN), paid(2, 100, TOKYO)]) == [("travel", "p2", "p3")]


def test_an_amount_is_unusual_above_twenty_times_the_median_of_at_least_ten():
    usual = [paid(number, number * 60, cents=1000 if number % 2 else 2000) for number in range(10)]
    assert judged([*usual, paid(99, 900, cents=30_000)]) == []
    assert judged([*usual, paid(99, 900, cents=30_001)]) == [("amount", "p99", None)]
    assert judged([*usual[:9], paid(99, 900, cents=90_000)]) == []


def test_only_the_last_payments_say_what_is_usual():
    history = History()
    judged([paid(number, number * 60, cents=100_000) for number in range(30)], history=history)
    judged([paid(100 + number, 2000 + number * 60, cents=100) for number in range(50)], history=history)
    assert len(history.cents) == 50
    assert judged([paid(999, 9000, cents=2_001)], history=history) == [("amount", "p999", None)]


def test_what_is_older_than_a_day_is_too_late_and_counted():
    history = History()
    judged([paid(1, 0, BERLIN), paid(2, 24 * 60, BERLIN)], history=history)
    assert [one.id for one in history.payments] == ["p2"]
    assert judged([paid(3, 0, TOKYO)], history=history) == []
    assert judged([paid(4, 0.001, TOKYO)], history=history) == []  # in time, and a day from Berlin
    assert (history.late, len(history.payments)) == (1, 2)


def test_a_history_has_a_limit_whatever_comes():
    history = History()
    limits = Limits(remembered_payments=20, velocity_payments=1000)
    judged([paid(number, number / 100) for number in range(500)], limits, history)
    assert len(history.payments) == 20
    assert judged([paid(3, 0.03)], limits, history) == []
    assert history.late == 1


def test_generated_payments_are_judged_as_the_oracle_does():
    values = [
        one.happening.value for one in islice(labelled(seed=7, customers=30), 6000) if one.happening.topic == TRANSACTIONS
    ]
    histories = defaultdict(History)
    found = []
    for value in values:
        if value["kind"] == "card":
            payment = payment_of(value)
            alerts = judge(histories[value["customer"]], payment, Limits())
            found += [(value["customer"], one.rule, one.payment.id, one.other) for one in alerts]
    assert found == expected_alerts(values)
    assert {rule for _, rule, _, _ in found} == {"velocity", "travel", "amount"}


def test_woven_in_fraud_is_found_and_honest_customers_are_left_alone():
    arrived = [one for one in islice(labelled(seed=2, customers=100), 30_000) if one.happening.topic == TRANSACTIONS]
    truths = {one.happening.value["id"]: one.truth for one in arrived}
    histories = defaultdict(History)
    right, wrong, caught = 0, [], set()
    for one in arrived:
        value = one.happening.value
        if value["kind"] != "card":
            continue
        for found in judge(histories[value["customer"]], payment_of(value), Limits()):
            pair = {found.payment.id, found.other}
            if found.rule in {truths.get(id) for id in pair}:
                right += 1
                caught |= {(found.rule, id) for id in pair}
            else:
                wrong.append(found)
    assert right > 100
    assert len(wrong) <= 0.02 * right  # the first ten payments of a customer may all be small
    travels = {id for id, truth in truths.items() if truth == "travel"}
    assert {("travel", id) for id in travels} <= caught
    amounts = {id for id, truth in truths.items() if truth == "amount"}
    assert len([id for id in amounts if ("amount", id) in caught]) > 0.9 * len(
        amounts
    )  # the others came before enough was known


def payment_of(value):
    at_ms = round(datetime.fromisoformat(value["at"]).timestamp() * 1000)
    cents = int(-Decimal(value["amount"]) * 100)
    return Payment(at_ms, value["id"], value["account"], cents, value["merchant"], value["city"], value["lat"], value["lon"])
