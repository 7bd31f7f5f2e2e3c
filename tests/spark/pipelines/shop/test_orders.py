"""Orders against plain Python: the outer join, the life of each order, the alerts; late and repeated messages; a restart."""

from datetime import datetime, timedelta
from itertools import islice

import pytest
from tests.spark.pipelines.drawing import assert_drawn
from tests.spark.pipelines.shop import oracle

from headrace.spark.pipelines.happening import Happening
from headrace.spark.pipelines.shop.events import DELIVERIES, ORDERS, PAYMENTS, SHIPMENTS, START, happenings
from headrace.spark.pipelines.shop.orders import SHOWS, pipeline

HOUR, MINUTE, MOMENT = timedelta(hours=1), timedelta(minutes=1), timedelta(milliseconds=1)
LATENESS = 4 * HOUR
PAY, SHIP, DELIVER = 2 * HOUR, 48 * HOUR, 120 * HOUR
FOUR = {ORDERS, PAYMENTS, SHIPMENTS, DELIVERIES}

pytestmark = pytest.mark.timeout(400)  # Spark takes its time on a busy machine


def step(topic, order, at, again=""):
    about = {"id": f"{topic}-{order}{again}", "at": oracle.text(at), "order": order}
    if topic == ORDERS:
        line = {"product": "P-101", "quantity": 1, "price_cents": 2990}
        about |= {"customer": f"customer of {order}", "lines": [line], "total_cents": 2990}
    if topic == PAYMENTS:
        about |= {"status": "captured", "method": "card", "amount_cents": 2990}
    return Happening(topic, order, about, at)


def two_chunks():
    generated = [one for one in islice(happenings(seed=3, visits_per_hour=6), 9000) if one.topic in FOUR]
    half = len(generated) // 2
    newest = max(one.at for one in generated[:half])
    slower = min(max(one.at for one in generated[:half] if one.topic == topic) for topic in (ORDERS, PAYMENTS))
    placed = slower - 3 * HOUR
    in_time = [step(ORDERS, "in time", placed), step(PAYMENTS, "in time", placed + PAY)]
    too_late = [step(ORDERS, "too late", placed), step(PAYMENTS, "too late", placed + PAY + MOMENT)]
    first = [
        *generated[:half],
        *in_time,
        *too_late,
        *in_time,
        step(PAYMENTS, "paid first", newest - HOUR),
        step(ORDERS, "packed late", START),
        step(PAYMENTS, "packed late", START + MINUTE),
        step(SHIPMENTS, "packed late", START + MINUTE + SHIP + MOMENT),
        step(ORDERS, "packed in time", START),
        step(PAYMENTS, "packed in time", START + MINUTE),
        step(SHIPMENTS, "packed in time", START + MINUTE + SHIP),
    ]
    end = START + timedelta(days=90)
    second = [
        *generated[half:],
        *in_time,
        step(ORDERS, "paid first", newest - HOUR - MINUTE),
        step(PAYMENTS, "in time", placed + PAY - MINUTE + 30 * timedelta(days=1), "-second"),
        step(ORDERS, "dropped", slower - LATENESS),
        *(step(topic, "pushes the watermark", end) for topic in (ORDERS, SHIPMENTS)),
        step(PAYMENTS, "pushes it, too", end),
    ]
    return first, second


def test_statuses_and_alerts_are_those_of_plain_python_with_late_and_repeated_messages_and_a_restart(shop):
    join_gate = oracle.Gate(LATENESS, [{ORDERS}, {PAYMENTS}])
    life_gate = oracle.Gate(LATENESS, [FOUR])
    joined: dict[str, list[Happening]] = {ORDERS: [], PAYMENTS: []}
    lives = oracle.Lives()
    shop.feed_text(PAYMENTS, '{"id": "no order", "at": "2026-03-02T08:00:00Z", "status": "captured", "amount_cents": 1}')
    for chunk in two_chunks():
        for one in join_gate.through(one for one in chunk if one.topic in joined):
            joined[one.topic].append(one)
        lives.add(life_gate.through(chunk))
        shop.feed(chunk)
        shop.run(pipeline)
    paid, unpaid = oracle.payments(joined[ORDERS], joined[PAYMENTS], PAY, join_gate.watermark)
    alerts = [*unpaid, *lives.alerts(SHIP, DELIVER, life_gate.watermark)]
    for gate in (join_gate, life_gate):
        assert gate.late >= 1
        assert gate.repeated > 4

    def of(one):
        return one["order"], one.get("paid_at", "")

    assert sorted((value for _, value in shop.topic("shop.paid-orders")), key=of) == sorted(paid, key=of)
    assert {one["order"] for one in paid} & {"in time", "too late"} == {"in time"}

    said: dict[str, list[dict]] = {}
    for order, value in shop.topic("shop.order-status"):
        said.setdefault(order, []).append(value)
    assert said == lives.said
    assert len(said["paid first"]) == 1

    in_topic = [value for _, value in shop.topic("shop.alerts")]
    assert sorted(in_topic, key=lambda one: one["id"]) == sorted(alerts, key=lambda one: one["id"])
    kinds = [one["alert"] for one in alerts]
    assert min(kinds.count(kind) for kind in ("not paid", "not shipped", "not delivered")) >= 2
    ids = {one["id"] for one in alerts}
    assert {"not paid:too late", "not shipped:packed late"} <= ids
    assert not {"not paid:in time", "not shipped:packed in time"} & ids

    def as_text(row):
        times = {name: oracle.text(one) for name, one in row.items() if isinstance(one, datetime)}
        return {name: one for name, one in {**row, **times}.items() if one is not None and name != "version"}

    assert [as_text(row) for row in shop.table("shop_alerts")] == sorted(alerts, key=lambda one: one["id"])
    statuses = {row["order"]: as_text(row) for row in shop.table("shop_orders")}
    assert statuses == {order: every[-1] for order, every in lives.said.items()}
    # By both queries, under the same key: the topic is compacted.
    assert [value["fault"] for _, value in shop.topic("shop.rejected")] == ["missing: order"] * 2
    assert_drawn(SHOWS, lambda topic: [value for _, value in shop.topic(topic)])
