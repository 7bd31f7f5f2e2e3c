"""A small blocking client of RabbitMQ's management HTTP API, as Headrace and RabbitMQ serve it under /api.

    api = Management("http://127.0.0.1:8080", user="guest", password="guest")
    api.declare_queue("/", "orders", arguments={"x-queue-type": "quorum"})
    api.publish("/", "", "orders", b"hello")
    messages = api.get_messages("/", "orders", count=10, requeue=False)

`transport` makes one request after another on one connection, `values` are what the answers say, `api` has a call for each
thing to ask or do. `peek_messages`, `move_messages` and `retry_dead` are Headrace's own: RabbitMQ raises Unsupported. Every
error is a ManagementError whose text is one sentence. Imports nothing else of Headrace.
"""

from headrace.client.management.api import DEFAULT_EXCHANGE, Management
from headrace.client.management.errors import ManagementError, NotFound, Refused, Unsupported
from headrace.client.management.values import (
    Binding,
    Connection,
    Consumer,
    Exchange,
    Message,
    Policy,
    Queue,
    VirtualHost,
)

__all__ = [
    "DEFAULT_EXCHANGE",
    "Binding",
    "Connection",
    "Consumer",
    "Exchange",
    "Management",
    "ManagementError",
    "Message",
    "NotFound",
    "Policy",
    "Queue",
    "Refused",
    "Unsupported",
    "VirtualHost",
]
