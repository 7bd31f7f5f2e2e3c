"""What pika's blocking client receives, gathered so that a test can wait for it, and be sure that nothing more is coming."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic, BasicProperties

WAIT_S = 20.0
PERSISTENT = BasicProperties(delivery_mode=2)


class Delivery(NamedTuple):
    method: Basic.Deliver
    properties: BasicProperties
    body: bytes

    @property
    def tag(self) -> int:
        return self.method.delivery_tag


class Inbox:
    """One consumer and what it was given."""

    def __init__(
        self,
        channel: BlockingChannel,
        queue: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Mapping[str, object] | None = None,
        tag: str | None = None,
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.deliveries: list[Delivery] = []
        self.tag = channel.basic_consume(
            queue, self._take, auto_ack=no_ack, exclusive=exclusive, consumer_tag=tag, arguments=dict(arguments or {})
        )

    def _take(self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self.deliveries.append(Delivery(method, properties, body))

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    def wait(self, count: int) -> list[Delivery]:
        """At least so many deliveries, all of them."""
        pump(self.channel.connection, lambda: len(self.deliveries) >= count, f"{count} deliveries, not {self.bodies}")
        return self.deliveries

    def exactly(self, count: int) -> list[Delivery]:
        """So many deliveries, and no more once the broker has done what it was asked to."""
        self.wait(count)
        settle(self.channel, self.queue)
        assert len(self.deliveries) == count, self.bodies
        return self.deliveries

    def clear(self) -> list[Delivery]:
        taken, self.deliveries = self.deliveries, []
        return taken

    def cancel(self) -> None:
        self.channel.basic_cancel(self.tag)


def pump(connection: BlockingConnection, condition: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    """Lets the client work until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        connection.process_data_events(0.01)


def settle(channel: BlockingChannel, *queues: str) -> None:
    """Two round trips through the queue: whatever it decided to deliver on this connection before has arrived."""
    for _ in range(2):
        for queue in queues:
            channel.queue_declare(queue, passive=True)
    channel.connection.process_data_events(0)


def count(channel: BlockingChannel, queue: str) -> int:
    """How many messages are ready."""
    return channel.queue_declare(queue, passive=True).method.message_count


def wait_for_count(channel: BlockingChannel, queue: str, wanted: int) -> None:
    pump(channel.connection, lambda: count(channel, queue) == wanted, f"{wanted} messages in {queue}")


def publish(channel: BlockingChannel, queue: str, bodies: Iterable[bytes | str], **properties: object) -> None:
    """Persistent messages through the default exchange."""
    for body in bodies:
        channel.basic_publish("", queue, body, BasicProperties(delivery_mode=2, **properties))


def get(channel: BlockingChannel, queue: str, *, auto_ack: bool = True) -> Delivery | None:
    method, properties, body = channel.basic_get(queue, auto_ack)
    return None if method is None else Delivery(method, properties, body)


def get_when_there(channel: BlockingChannel, queue: str, *, auto_ack: bool = True, timeout_s: float = WAIT_S) -> Delivery:
    found: list[Delivery] = []

    def look() -> bool:
        if delivery := get(channel, queue, auto_ack=auto_ack):
            found.append(delivery)
        return bool(found)

    pump(channel.connection, look, f"a message in {queue}", timeout_s)
    return found[0]


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Takes everything that is ready."""
    bodies = []
    while delivery := get(channel, queue):
        bodies.append(delivery.body)
    return bodies


def gone(channel: BlockingChannel, queue: str) -> bool:
    """Whether there is no such queue."""
    probe = channel.connection.channel()
    try:
        probe.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        if closed.reply_code != 404:
            raise
        return True
    probe.close()
    return False


def break_off(connection: BlockingConnection) -> None:
    """Ends the connection as a pulled plug would: no farewell, a reset at the other end."""
    plug = connection._impl._transport._sock
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plug.shutdown(socket.SHUT_RDWR)
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(WAIT_S)


@contextmanager
def closes(code: int, text: str | None = None) -> Iterator[None]:
    """`with closes(404, "NOT_FOUND - …")`: the broker closes the channel, or the connection, with just that."""
    expected = (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)
    with pytest.raises(expected) as closed:
        yield
    assert (closed.value.reply_code, closed.value.reply_text) == (code, closed.value.reply_text if text is None else text)
