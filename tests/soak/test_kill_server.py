"""A server killed with SIGKILL again and again, under load from an idempotent producer that waits for every acknowledgement:
in the end every record is there once, in order, at the offset its acknowledgement named."""

from __future__ import annotations

import random
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "campaign"
PARTITIONS = 3
PROGRESS_TIMEOUT_S = 60.0
RECORDS_PER_S = 20_000
IN_FLIGHT = 3_000
QUIET = {"log_level": 2}  # librdkafka need not tell of every connection that a kill ends


class Load(threading.Thread):
    """Writes 0, 1, 2, … to every partition until told to stop, and notes every acknowledgement."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]  # number -> offset
        self.sent = [0] * PARTITIONS
        self.errors: list[KafkaError] = []
        self._stop_now = threading.Event()
        self._chance = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 100,
                "message.timeout.ms": 0,  # never give up
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.max.ms": 100,
                "compression.type": self._chance.choice(["none", "lz4", "zstd", "gzip", "snappy"]),
                "error_cb": self._error,
                **QUIET,
            }
        )

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))

    def run(self) -> None:
        while not self._stop_now.is_set() and not self.errors:
            behind = sum(self.sent) - self.count
            for _ in range(min(20, IN_FLIGHT - behind)):
                partition = self._chance.randrange(PARTITIONS)
                value = b"%d " % self.sent[partition] + bytes(self._chance.randrange(200))
                self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
                self.sent[partition] += 1
            self._producer.poll(20 / RECORDS_PER_S)

    def finish(self) -> None:
        self._stop_now.set()
        self.join()
        left = self._producer.flush(PROGRESS_TIMEOUT_S)
        assert not self.errors
        assert left == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition()][number(message)] = message.offset()

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(error)


class Verifier(threading.Thread):
    """Reads along from the first record on: what it sees must be 0, 1, 2, … in every partition, without a gap or a repeat."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="verifier", daemon=True)
        self.next = [0] * PARTITIONS
        self.problems: list[str] = []
        self._stop_now = threading.Event()
        self._address = bootstrap

    def run(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._address, "group.id": "verifier", "reconnect.backoff.max.ms": 100, **QUIET}
        )
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        while not self._stop_now.is_set() and not self.problems:
            for message in consumer.consume(500, 0.1):
                if message.error():
                    if not message.error().retriable():
                        self.problems.append(str(message.error()))
                    continue
                partition = message.partition()
                expected = self.next[partition]
                if (number(message), message.offset()) != (expected, expected):
                    self.problems.append(f"partition {partition}: {number(message)} at {message.offset()}, not {expected}")
                self.next[partition] += 1
        consumer.close()

    def finish(self) -> None:
        self._stop_now.set()
        self.join()


def number(message: Message) -> int:
    return int(message.value().split(b" ", 1)[0])


def reads_exactly(bootstrap: str, sent: list[int]) -> None:
    """A fresh reader finds every record, and nothing after the last."""
    verifier = Verifier(bootstrap)
    verifier.start()
    wait_until(lambda: verifier.next == sent or verifier.problems, timeout_s=PROGRESS_TIMEOUT_S, what=f"{sum(sent)} records")
    verifier.finish()
    assert not verifier.problems
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end", **QUIET})
    for partition, count in enumerate(sent):
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 20, cached=False) == (0, count)
    consumer.close()


@pytest.mark.parametrize("durability", ["fsync", "flush"])  # both survive the death of the process
def test_every_acknowledged_record_survives_a_killed_server(durability, headrace_factory, kills, chance):
    server: HeadraceServer = headrace_factory(
        durability=durability, settings={"log.segment.bytes": chance.choice([2**20, 2**24, 2**30])}
    )
    admin = AdminClient({"bootstrap.servers": server.kafka, **QUIET})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    load, verifier = Load(server.kafka, chance.randrange(2**32)), Verifier(server.kafka)
    load.start()
    verifier.start()
    for kill in range(kills):
        goal = load.count + chance.randrange(1, 3000)
        wait_until(
            lambda goal=goal: load.count >= goal or load.errors or verifier.problems,
            timeout_s=PROGRESS_TIMEOUT_S,
            what=f"progress before kill {kill}",
        )
        assert not load.errors
        assert not verifier.problems
        time.sleep(chance.uniform(0, 0.02))  # not to wait for anything: so that the kill meets any moment of a batch
        server.crash()
        server.restart()
    wait_until(lambda goal=load.count + 1000: load.count >= goal or load.errors, timeout_s=PROGRESS_TIMEOUT_S, what="more")
    load.finish()
    for partition in range(PARTITIONS):
        assert load.acknowledged[partition] == {n: n for n in range(load.sent[partition])}
    wait_until(
        lambda: verifier.next == load.sent or verifier.problems, timeout_s=PROGRESS_TIMEOUT_S, what="the verifier to catch up"
    )
    verifier.finish()
    assert not verifier.problems
    server.crash()
    server.restart()
    reads_exactly(server.kafka, load.sent)
    server.restart()  # and after a clean stop
    reads_exactly(server.kafka, load.sent)
