"""The generator: the same for the same seed, and with everything in it that the pipelines are there for."""

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import islice

from headrace.spark.pipelines.shop.events import (
    CLICKS,
    DELIVERIES,
    ORDERS,
    PAYMENTS,
    PRODUCTS,
    SHIPMENTS,
    START,
    TOPICS,
    happenings,
)

MANY = list(islice(happenings(seed=7), 12_000))
FORTNIGHT = list(islice(happenings(seed=7, visits_per_hour=10), 12_000))


def distinct(topic, among=MANY):
    return {one.value["id"]: one for one in among if one.topic == topic}.values()


def test_the_same_seed_makes_the_same_happenings_and_another_seed_makes_others():
    assert list(islice(happenings(seed=7), 3000)) == MANY[:3000]
    assert list(islice(happenings(seed=8), 3000)) != MANY[:3000]


def test_a_message_that_comes_again_is_the_same_to_the_letter():
    seen = {}
    again = 0
    for one in MANY:
        if one.value["id"] in seen:
            assert seen[one.value["id"]] == one
            again += 1
        seen[one.value["id"]] = one
    assert again > 200


def test_messages_come_out_of_order_and_some_of_them_hours_late():
    newest, behind = START, []
    for one in MANY:
        behind.append(newest - one.at)
        newest = max(newest, one.at)
    assert sum(lag > timedelta(0) for lag in behind) > len(MANY) / 8
    assert sum(lag > timedelta(minutes=10) for lag in behind) > 50
    assert sum(lag > timedelta(hours=1) for lag in behind) > 20
    assert max(behind) < timedelta(hours=8)


def test_every_message_has_an_id_and_the_time_in_utc_with_milliseconds():
    for one in MANY:
        assert one.value["at"] == one.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert one.topic in TOPICS
        assert one.value["id"].startswith(one.topic.removeprefix("shop.") + "-")


def test_visitors_pause_come_back_and_leave_carts_behind():
    pages = Counter(one.value["page"] for one in distinct(CLICKS))
    assert pages["product"] > pages["cart"] > 2 * pages["checkout"] > 2 * pages["paid"] > 0
    trails = defaultdict(list)
    for one in distinct(CLICKS):
        trails[one.value["visitor"]].append(one.at)
    pauses = [b - a for trail in trails.values() for a, b in zip(sorted(trail), sorted(trail)[1:], strict=False)]
    assert sum(timedelta(minutes=5) < pause < timedelta(minutes=30) for pause in pauses) > 50
    assert sum(pause > timedelta(minutes=30) for pause in pauses) > 50


def test_orders_sum_up_and_are_paid_shipped_and_delivered_in_time_late_or_never():
    orders = {one.value["order"]: one for one in distinct(ORDERS, FORTNIGHT)}
    prices = {one.value["product"]: one.value["price_cents"] for one in distinct(PRODUCTS, FORTNIGHT)}
    for order in orders.values():
        assert order.value["total_cents"] == sum(prices[one["product"]] * one["quantity"] for one in order.value["lines"])
    assert sum(len(order.value["lines"]) > 1 for order in orders.values()) > len(orders) / 5
    paid = {one.value["order"]: one for one in distinct(PAYMENTS, FORTNIGHT) if one.value["status"] == "captured"}
    shipped = {one.value["order"]: one for one in distinct(SHIPMENTS, FORTNIGHT)}
    delivered = {one.value["order"]: one for one in distinct(DELIVERIES, FORTNIGHT)}
    assert 0 < len(orders.keys() - paid.keys()) < len(orders) / 3
    assert any(one.value["status"] == "declined" for one in distinct(PAYMENTS, FORTNIGHT))
    limits = (timedelta(hours=2), timedelta(hours=48), timedelta(days=5))
    for earlier, later, limit in zip((orders, paid, shipped), (paid, shipped, delivered), limits, strict=True):
        taken = [later[order].at - earlier[order].at for order in later.keys() & earlier.keys()]
        assert min(taken) > timedelta(0)
        assert 0 < sum(one > limit for one in taken) < len(taken) / 3
