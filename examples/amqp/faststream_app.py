"""A FastStream application: handlers with types, an answer to a request, a topic exchange, a handler that publishes.

faststream run faststream_app:app
"""

from __future__ import annotations

import os

from faststream import FastStream
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel, PositiveInt

STEM = os.environ.get("FASTSTREAM_STEM", "faststream-example")

broker = RabbitBroker(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"))
app = FastStream(broker)

events = RabbitExchange(f"{STEM}.events", type=ExchangeType.TOPIC, durable=True)


class Order(BaseModel):
    number: PositiveInt
    item: str


@broker.subscriber(RabbitQueue(f"{STEM}.orders", durable=True))
@broker.publisher(routing_key="orders.taken", exchange=events)
async def take(order: Order) -> Order:
    """Whoever asks gets the answer; whoever listens for `orders.taken` hears of it."""
    return Order(number=order.number, item=order.item.upper())


@broker.subscriber(RabbitQueue(f"{STEM}.audit", durable=True, routing_key="orders.*"), events)
@broker.publisher(f"{STEM}.audited")
async def audit(order: Order) -> str:
    return f"audited {order.number} {order.item}"
