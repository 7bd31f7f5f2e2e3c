"""The bank's generator: the same for the same seed, in the order of arrival, with the promised truths woven in."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice

import pytest

from headrace.spark.pipelines.banking.events import CUSTOMERS, START, TRANSACTIONS, happenings, labelled

MANY = 20_000


@pytest.fixture(scope="module")
def arrived():
    return list(islice(labelled(seed=1, customers=100), MANY))


@pytest.fixture(scope="module")
def transactions(arrived):
    return [one for one in arrived if one.happening.topic == TRANSACTIONS]


def once(transactions):
    return {one.happening.value["id"]: one.happening.value for one in transactions}.values()


def moment(text):
    return datetime.fromisoformat(text)


def test_the_same_seed_gives_the_same_happenings_and_another_one_gives_others():
    first, again, other = (list(islice(happenings(seed=seed, customers=10), 500)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert not {one.value["id"] for one in first if one.topic == TRANSACTIONS} & {
        one.value["id"] for one in other if one.topic == TRANSACTIONS
    }


def test_truths_are_not_in_the_events(arrived):
    plain = list(islice(happenings(seed=1, customers=100), MANY))
    assert plain == [one.happening for one in arrived]
    assert {key for one in plain for key in one.value} == {
        *("id", "account", "customer", "kind", "amount", "currency", "merchant", "category", "city", "lat", "lon"),
        *("counterparty", "at", "booked", "version", "name", "opened"),
    }


def test_every_kind_of_truth_is_there(transactions):
    counted = Counter(one.truth for one in transactions)
    assert set(counted) == {None, "velocity", "travel", "amount", "large-cash", "structuring"}
    assert counted[None] > 0.95 * len(transactions)


def test_arrivals_are_in_order_and_late_and_repeated_ones_among_them(transactions):
    first_arrivals = {}
    for one in transactions:
        first_arrivals.setdefault(one.happening.value["id"], moment(one.happening.value["booked"]))
    assert list(first_arrivals.values()) == sorted(first_arrivals.values())
    late = [v for v in once(transactions) if moment(v["booked"]) - moment(v["at"]) >= timedelta(minutes=12)]
    assert 0.015 < len(late) / len(first_arrivals) < 0.025
    repeated = len(transactions) - len(first_arrivals)
    assert 0.005 < repeated / len(first_arrivals) < 0.015


def test_a_duplicate_is_the_same_to_the_last_field(transactions):
    by_id = defaultdict(list)
    for one in transactions:
        by_id[one.happening.value["id"]].append(one.happening)
    assert all(one == copies[0] for copies in by_id.values() for one in copies)


def test_what_one_customer_sends_another_receives(transactions):
    legs = defaultdict(list)
    for value in once(transactions):
        if value["counterparty"]:
            legs[value["at"], frozenset((value["account"], value["counterparty"]))].append(Decimal(value["amount"]))
    whole = [amounts for amounts in legs.values() if len(amounts) == 2]
    assert len(whole) > 100
    assert all(sum(amounts) == 0 for amounts in whole)
    assert len(legs) - len(whole) < 10  # the other leg has not arrived yet


def test_customers_come_first_and_some_move(arrived):
    states = [one.happening.value for one in arrived if one.happening.topic == CUSTOMERS]
    assert [one.happening.topic for one in arrived[:100]] == [CUSTOMERS] * 100
    moved = [state for state in states if state["version"] > 1]
    assert moved
    assert all({"id", "name", "city", "lat", "lon", "opened"} <= state.keys() for state in states)


def test_amounts_are_decimal_strings_and_card_payments_below_zero(transactions):
    for value in once(transactions):
        assert f"{Decimal(value['amount']):.2f}" == value["amount"]
        assert value["kind"] != "card" or Decimal(value["amount"]) < 0


def test_people_pay_by_day_rather_than_by_night(transactions):
    hours = Counter(moment(v["at"]).hour for v in once(transactions) if v["kind"] == "card")
    assert sum(hours[hour] for hour in range(12, 20)) > 5 * sum(hours[hour] for hour in range(6))


def test_a_feed_may_begin_at_any_time_of_the_day():
    start = datetime(2026, 5, 4, 13, 30, tzinfo=UTC)
    first = list(islice(happenings(seed=1, start=start, customers=50), 400))
    assert min(one.at for one in first) == start
    assert {one.value["id"] for one in first if one.topic == TRANSACTIONS}.isdisjoint(
        one.value["id"] for one in islice(happenings(seed=1, start=START, customers=50), 400)
    )
