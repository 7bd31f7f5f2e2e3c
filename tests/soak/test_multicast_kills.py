"""A server killed again and again while it sends a topic as a feed over a bad network.

- A subscriber that recovers gets every acknowledged record once, in the order of the log, whatever was lost and killed.
- A subscriber that does not gets a part of the same, in order; each offset that it did not get is in one of its gaps.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.multicast.network import LossyNetwork, free_url
from tests.multicast.serving import make_topic, to_feed

import headrace
from headrace.client.multicast import Subscriber
from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "prices"
PROGRESS_TIMEOUT_S = 60.0


class Writer(threading.Thread):
    """An idempotent Kafka producer that counts what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 100,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for _ in range(20):
                self._producer.produce(TOPIC, b"%d" % number, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(PROGRESS_TIMEOUT_S) == 0

    def _delivered(self, error: object, _: object) -> None:
        assert error is None
        self.acknowledged += 1


class Reader(threading.Thread):
    """Keeps what a subscriber gets."""

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(daemon=True)
        self.subscriber = subscriber
        self.offsets: list[int] = []
        self.values: list[bytes | None] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            for received in self.subscriber.receive_many(0.1):
                assert received.offset is not None
                self.offsets.append(received.offset)
                self.values.append(received.event.value)


def test_a_feed_over_a_bad_network_is_complete_after_every_kill(
    headrace_factory: Callable[..., HeadraceServer], kills: int, chance: random.Random
) -> None:
    server = headrace_factory()
    make_topic(server, TOPIC)
    near, far = free_url(TOPIC), free_url(TOPIC)
    to_feed(server, TOPIC, near, mtu=300)
    network = LossyNetwork(near, far, chance.randrange(2**32), loss=0.03, double=0.03, delay=0.05)
    with network, headrace.connect(far, reorder_ms=10) as channel:
        whole = Reader(channel.subscriber(recover=server.kafka, start="earliest"))
        plain = Reader(channel.subscriber())
        writer = Writer(server.kafka)
        for thread in (whole, plain, writer):
            thread.start()
        for _ in range(kills):
            before = writer.acknowledged, len(whole.offsets)
            wait_until(
                lambda before=before: writer.acknowledged > before[0] + 500 and len(whole.offsets) > before[1] + 500,
                timeout_s=PROGRESS_TIMEOUT_S,
                what="progress",
            )
            time.sleep(chance.random() * 0.05)  # a moment of chance
            server.crash()
            server.restart()
        writer.stopping.set()
        writer.join(PROGRESS_TIMEOUT_S)
        assert not writer.is_alive()
        count = writer.acknowledged
        wait_until(lambda: len(whole.offsets) >= count, timeout_s=PROGRESS_TIMEOUT_S, what="everything")
        plain_counts = plain.subscriber.counts
        wait_until(
            lambda: plain.offsets and plain.offsets[0] + plain_counts.events + plain_counts.lost >= count,
            timeout_s=PROGRESS_TIMEOUT_S,
            what="everything, or word of it",
        )
        for reader in (whole, plain):
            reader.stopping.set()
            reader.join(PROGRESS_TIMEOUT_S)
        assert whole.offsets == list(range(count))
        assert whole.values == [b"%d" % number for number in range(count)]
        assert whole.subscriber.counts.lost == 0
        assert plain.offsets == sorted(set(plain.offsets))
        assert plain.values == [b"%d" % offset for offset in plain.offsets]
        assert plain_counts.lost == count - plain.offsets[0] - len(plain.offsets)
        assert len(network.lost) > 0
