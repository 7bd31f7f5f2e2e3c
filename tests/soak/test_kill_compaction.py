"""A server killed with SIGKILL again and again while it compacts what is being written: in the end the last acknowledged value
of every key is there, at its offset, and nothing is out of order."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "state"
KEYS = 500
IN_FLIGHT = 2_000
PROGRESS_TIMEOUT_S = 60.0
QUIET = {"log_level": 2}
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(2**20),
    "delete.retention.ms": "600000",
    "file.delete.delay.ms": "50",
}


class Load(threading.Thread):
    """Writes a growing number to keys by chance, now and then a tombstone, and notes every acknowledgement."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.written: dict[int, tuple[bytes, bytes | None]] = {}  # offset -> key, value
        self.sent = 0
        self.errors: list[KafkaError] = []
        self._stop_now = threading.Event()
        self._chance = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.max.ms": 100,
                "compression.type": self._chance.choice(["none", "none", "lz4", "zstd"]),
                **QUIET,
            }
        )

    def run(self) -> None:
        while not self._stop_now.is_set() and not self.errors:
            for _ in range(min(50, IN_FLIGHT - (self.sent - len(self.written)))):
                key = b"key-%d" % self._chance.randrange(KEYS)
                value = None if self._chance.random() < 0.02 else b"%d " % self.sent + self._chance.randbytes(300)
                self._producer.produce(TOPIC, value, key, partition=0, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(0.005)

    def finish(self) -> None:
        self._stop_now.set()
        self.join()
        assert self._producer.flush(PROGRESS_TIMEOUT_S) == 0
        assert not self.errors

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.written[message.offset()] = (message.key(), message.value())


def read(bootstrap: str) -> dict[int, tuple[bytes, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True, **QUIET})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[int, tuple[bytes, bytes | None]] = {}
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            break
        assert not found or message.offset() > max(found)
        found[message.offset()] = (message.key(), message.value())
    consumer.close()
    return found


def check(bootstrap: str, written: dict[int, tuple[bytes, bytes | None]]) -> None:
    found = read(bootstrap)
    assert all(written[offset] == row for offset, row in found.items()), "as it was written, where it was written"
    newest = {key: offset for offset, (key, _) in sorted(written.items())}
    missing = [key for key, offset in newest.items() if offset not in found]
    assert not missing, "the last of every key, tombstones included"


def numbers_of_copies(data: Path) -> set[str]:
    return {path.name for path in data.glob(f"topics/{TOPIC}.*/0/*.*.log")}


def test_the_last_value_of_every_key_survives_kills_during_compaction(headrace_factory, kills, chance):
    settings = {"log.cleaner.backoff.ms": 100, "headrace.cleaner.cpu.share": 1.0}
    server: HeadraceServer = headrace_factory(durability="fsync", settings=settings)
    admin = AdminClient({"bootstrap.servers": server.kafka, **QUIET})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(20)
    load = Load(server.kafka, chance.randrange(2**32))
    load.start()
    seen: set[str] = set()
    for kill in range(kills):
        goal = len(load.written) + chance.randrange(2_000, 8_000)
        wait_until(
            lambda goal=goal: len(load.written) >= goal or load.errors,
            timeout_s=PROGRESS_TIMEOUT_S,
            what=f"progress before kill {kill}",
        )
        assert not load.errors
        time.sleep(chance.uniform(0, 0.2))  # not to wait for anything: so that the kill meets any moment of a cleaning
        seen |= numbers_of_copies(server.data)
        server.crash()
        server.restart()
    wait_until(
        lambda: numbers_of_copies(server.data) - seen, timeout_s=PROGRESS_TIMEOUT_S, what="another cleaning after the last kill"
    )
    load.finish()
    check(server.kafka, load.written)
    assert len(read(server.kafka)) < len(load.written)
    server.crash()
    server.restart()
    check(server.kafka, load.written)
    server.restart()
    check(server.kafka, load.written)
