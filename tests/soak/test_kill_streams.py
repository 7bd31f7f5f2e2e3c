"""A server killed with SIGKILL again and again while AMQP publishes to a stream with confirms and Kafka produces to the same
topic: everything that was confirmed is there, in order, and both protocols read the same."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pika.exceptions import AMQPError

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

STREAM = "campaign"
PROGRESS_TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def quiet() -> None:
    """pika need not tell of every connection that a kill ends."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)


class Publisher(threading.Thread):
    """Publishes 0, 1, 2, … and waits for each confirm; what was not confirmed is published again."""

    def __init__(self, url: str) -> None:
        super().__init__(name="publisher", daemon=True)
        self.confirmed = 0
        self.stopping = threading.Event()
        self._url = url

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                connection = pika.BlockingConnection(pika.URLParameters(self._url))
                channel = connection.channel()
                channel.confirm_delivery()
                while not self.stopping.is_set():
                    channel.basic_publish("", STREAM, b"amqp %d" % self.confirmed)
                    self.confirmed += 1
                connection.close()
            except (AMQPError, OSError):
                self.stopping.wait(0.02)  # the server is being killed


class Kafka(threading.Thread):
    """The same by Kafka's protocol, with an idempotent producer."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="kafka", daemon=True)
        self.confirmed = 0
        self.stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 100,
                "compression.type": "lz4",
                "log_level": 2,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            self._producer.produce(STREAM, b"kafka %d" % number, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(PROGRESS_TIMEOUT_S) == 0

    def _delivered(self, error: object, _: object) -> None:
        assert error is None
        self.confirmed += 1


def read_by_amqp(url: str, count: int) -> list[bytes]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=500)
    bodies: list[bytes] = []
    for method, _, body in channel.consume(
        STREAM, arguments={"x-stream-offset": "first"}, inactivity_timeout=PROGRESS_TIMEOUT_S
    ):
        assert method is not None, f"{len(bodies)} of {count}"
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    connection.close()
    return bodies


def read_by_kafka(bootstrap: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    partition = TopicPartition(STREAM, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, PROGRESS_TIMEOUT_S)
    consumer.assign([partition])
    values: list[bytes] = []
    deadline = time.monotonic() + PROGRESS_TIMEOUT_S
    while len(values) < end:
        assert time.monotonic() < deadline
        values += [record.value() for record in consumer.consume(1000, 0.5)]
    consumer.close()
    return values


def test_what_was_confirmed_is_there_for_both_protocols_after_every_kill(
    headrace_factory: Callable[..., HeadraceServer], kills: int, chance: random.Random
) -> None:
    server = headrace_factory()
    connection = pika.BlockingConnection(pika.URLParameters(server.address("amqp")))
    connection.channel().queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
    connection.close()
    publisher, kafka = Publisher(server.address("amqp")), Kafka(server.kafka)
    publisher.start()
    kafka.start()
    for _ in range(kills):
        before = publisher.confirmed, kafka.confirmed
        wait_until(
            lambda before=before: publisher.confirmed > before[0] + 20 and kafka.confirmed > before[1] + 20,
            timeout_s=PROGRESS_TIMEOUT_S,
            what="progress",
        )
        time.sleep(chance.random() * 0.05)  # a moment of chance
        server.crash()
        server.restart()
    for writer in (publisher, kafka):
        writer.stopping.set()
        writer.join(PROGRESS_TIMEOUT_S)
        assert not writer.is_alive()
    stored = read_by_kafka(server.kafka)
    assert read_by_amqp(server.address("amqp"), len(stored)) == stored
    assert [body for body in stored if body.startswith(b"kafka")] == [b"kafka %d" % n for n in range(kafka.confirmed)]
    published = [int(body.split()[1]) for body in stored if body.startswith(b"amqp")]
    assert sorted(set(published)) in (list(range(publisher.confirmed)), list(range(publisher.confirmed + 1)))
    assert published == sorted(published)  # what was not confirmed may be there twice, one after the other
