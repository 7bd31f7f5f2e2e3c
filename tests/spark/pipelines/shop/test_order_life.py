"""The rules of an order's life by themselves: what is news, what is overdue, when an order is forgotten."""

import pytest

from headrace.spark.pipelines.shop.order_life import Life, Limits

LIMITS = Limits(ship_ms=100, deliver_ms=1000, forget_ms=50_000)


def life(**times):
    known = Life()
    for step, at_ms in times.items():
        known.learn(step, at_ms, "somebody", 5)
    return known


def test_a_message_is_news_once_and_an_earlier_time_of_the_same_step_is_news_again():
    known = Life()
    assert known.learn("placed", 10, "somebody", 5)
    assert not known.learn("placed", 10, "somebody", 5)
    assert not known.learn("placed", 11, "somebody else", 6)
    assert known.learn("placed", 9, "somebody", 5)
    assert (known.placed, known.customer, known.total_cents) == (9, "somebody", 5)


@pytest.mark.parametrize(
    ("times", "overdue"),
    [
        ({"placed": 1}, []),
        ({"placed": 1, "paid": 2}, [("not shipped", 102)]),
        ({"placed": 1, "paid": 2, "shipped": 102}, [("not delivered", 1102)]),
        ({"placed": 1, "paid": 2, "shipped": 103}, [("not shipped", 102), ("not delivered", 1103)]),
        ({"placed": 1, "paid": 2, "shipped": 50, "delivered": 1050}, []),
        ({"placed": 1, "paid": 2, "shipped": 50, "delivered": 1051}, [("not delivered", 1050)]),
        ({"paid": 2}, []),  # nothing is said of an order that nobody placed
    ],
)
def test_overdue_is_what_did_not_happen_by_its_limit_even_if_it_happened_later(times, overdue):
    assert list(life(**times).overdue(LIMITS)) == overdue


def test_what_was_said_is_not_said_again():
    known = life(placed=1, paid=2, shipped=103)
    known.say("not shipped")
    assert list(known.overdue(LIMITS)) == [("not delivered", 1103)]
    known.say("not delivered")
    assert list(known.overdue(LIMITS)) == []


def test_a_complete_order_is_forgotten_with_its_last_step_and_an_incomplete_one_later():
    assert life(placed=1, paid=2, shipped=3, delivered=4).forgotten_at(LIMITS) == 4
    assert life(placed=1, paid=2, shipped=3).forgotten_at(LIMITS) == 50_003


def test_the_status_is_the_furthest_step_that_is_known():
    assert [life(placed=1).status, life(placed=1, shipped=3).status] == ["placed", "shipped"]
