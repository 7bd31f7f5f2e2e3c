"""Orders of the shop over AMQP: a publisher with confirms, and the packing hall, which rejects some.

    demo.orders (topic exchange)
        order.#       → demo.orders.packing   consumed here; what is rejected dies to demo.orders.rejected
        order.large   → demo.orders.review    nobody consumes it; at most REVIEW_LENGTH, then the oldest go
        order.#       → demo.orders.log       a stream: the topic of the same name, which Kafka clients, routes, webhooks read

Orders above LARGE_CENTS have the routing key order.large, all others order.normal.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from itertools import islice

from headrace.amqp.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from headrace.cli.demo_feeds.amqp_link import Link
from headrace.cli.demo_feeds.background import Background, Pace
from headrace.record.amqp.properties import PERSISTENT, Properties, encode_properties
from headrace.spark.pipelines.happening import Happening
from headrace.spark.runner.feeding import happenings

EXCHANGE, DEAD_EXCHANGE = "demo.orders", "demo.orders.dead"
PACKING, REVIEW, REJECTED, LOG = "demo.orders.packing", "demo.orders.review", "demo.orders.rejected", "demo.orders.log"
LARGE_CENTS = 20_000
REJECT_ONE_IN = 12
REMEMBERED = 1_000
REVIEW_LENGTH, REJECTED_LENGTH = 1_000, 10_000
RATE = 5.0
_TURN_S = 0.2
_MOST = 20  # at once
_PREFETCH = 20


class OrdersOverAmqp(Background):
    name = "orders over AMQP"
    protocol = "amqp"

    def __init__(self, address: str, rate: float = RATE) -> None:
        super().__init__()
        self._address = address
        self._rate = rate
        self._orders = _orders()

    def _work(self) -> None:
        link = Link(self._address, "demo: the shop's orders")
        try:
            declare(link)
            link.confirm()
            pace = Pace(self._rate, _MOST)
            while not self.ended.wait(_TURN_S):
                messages = [_message(order) for order in islice(self._orders, pace.due())]
                if messages:
                    self.count("published", link.publish(EXCHANGE, messages))
        finally:
            link.close()


class PackingHall(Background):
    """Consumes orders one by one. What it rejects is decided by the order's number; one that was rejected and is sent back it
    takes, as long as it remembers (REMEMBERED orders)."""

    name = "the packing hall"
    protocol = "amqp"

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._rejected: deque[str] = deque(maxlen=REMEMBERED)

    def _work(self) -> None:
        link = Link(self._address, "demo: the packing hall")
        try:
            declare(link)
            link.consume(PACKING, "demo.packing", _PREFETCH)
            while not self.ended.is_set():
                delivery = link.delivery(timeout_s=0.2)
                if delivery is None:
                    continue
                order = _number(delivery.body)
                if order in self._rejected or not _is_damaged(order):
                    link.ack(delivery.tag)
                    self.count("packed")
                else:
                    self._rejected.append(order)
                    link.reject(delivery.tag)
                    self.count("rejected")
        finally:
            link.close()


def declare(link: Link) -> None:
    """All of the above; what is there already stays as it is."""
    for exchange, kind in ((EXCHANGE, "topic"), (DEAD_EXCHANGE, "fanout")):
        link.call(ExchangeDeclare(exchange, kind, durable=True), ExchangeDeclareOk)
    queues: dict[str, dict[str, object]] = {
        PACKING: {"x-dead-letter-exchange": DEAD_EXCHANGE},
        REVIEW: {"x-max-length": REVIEW_LENGTH},
        REJECTED: {"x-max-length": REJECTED_LENGTH},
        LOG: {"x-queue-type": "stream"},
    }
    for queue, arguments in queues.items():
        link.call(QueueDeclare(queue, durable=True, arguments=arguments), QueueDeclareOk)
    bindings = ((PACKING, EXCHANGE, "order.#"), (REVIEW, EXCHANGE, "order.large"), (LOG, EXCHANGE, "order.#"))
    for queue, exchange, key in (*bindings, (REJECTED, DEAD_EXCHANGE, "")):
        link.call(QueueBind(queue, exchange, key), QueueBindOk)


def _orders() -> Iterator[Happening]:
    return (one for one in happenings("shop") if one.topic == "shop.orders")


def _message(order: Happening) -> tuple[str, bytes, bytes]:
    key = "order.large" if int(order.value["total_cents"]) > LARGE_CENTS else "order.normal"
    properties = Properties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        message_id=order.key,
        timestamp=int(order.at.timestamp()),
        type="order.placed",
        app_id="headrace demo",
    )
    return key, encode_properties(properties), json.dumps(order.value, ensure_ascii=False).encode()


def _number(body: bytes) -> str:
    """Of the order; "" for what somebody else published."""
    try:
        return str(json.loads(body)["order"])
    except (ValueError, KeyError, TypeError):
        return ""


def _is_damaged(order: str) -> bool:
    number = order.rpartition("-")[2]
    return not number.isdecimal() or int(number) % REJECT_ONE_IN == 0
