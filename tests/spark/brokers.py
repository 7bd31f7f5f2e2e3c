"""The servers that source and sink are tested on: topics with names of their own, records, and a real Apache Kafka.

Kafka needs Java, and its jars from the cache that the benchmarks use, or Maven to fetch them. Without these its tests are
skipped, and say so.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from bench.peers import SMALL_JVM, PeerError, kafka_libs, start_kafka

from headrace.client.kafka import Cluster, Isolation, Producer, Reader, TopicPartition, end_offsets, start_offsets
from headrace.client.kafka.reader import Received
from headrace.client.kafka.topics import create_topic, delete_records, delete_topic, set_partitions, wait_until_led
from headrace.record.event import Event
from headrace.testing import wait_until


class Brokers:
    """One server. `kind` is "headrace" or "kafka"."""

    def __init__(self, kind: str, bootstrap: str) -> None:
        self.kind = kind
        self.bootstrap = bootstrap
        self.cluster = Cluster(bootstrap)

    def topic(self, partitions: int = 1, stem: str = "t", **config: str) -> str:
        """A new topic with a name that nobody else has; an underscore in a setting's name stands for a dot."""
        name = f"{stem}-{uuid.uuid4().hex[:10]}"
        self.create(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
        return name

    def create(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        # Tests write records of long ago, and a real Kafka would begin to delete them at once.
        create_topic(self.cluster, name, partitions=partitions, configs={"retention.ms": "-1", **(config or {})})
        self.cluster.forget()
        wait_until(lambda: self._led(name, partitions), what=f"topic {name}")

    def _led(self, name: str, partitions: int) -> bool:
        topic = self.cluster.metadata([name]).topics.get(name)
        if topic is None or len(topic.partitions) < partitions:
            return False
        wait_until_led(self.cluster, name)
        return True

    def produce(self, topic: str, values: Iterable[bytes | Event], partition: int | None = None) -> None:
        """Writes records and waits until they are acknowledged."""
        producer = Producer(self.cluster)
        for value in values:
            producer.send(topic, value if isinstance(value, Event) else Event(None, value), partition)
        producer.flush()

    def grow(self, topic: str, partitions: int) -> None:
        set_partitions(self.cluster, topic, partitions)
        self.cluster.forget()
        wait_until(lambda: self._led(topic, partitions), what=f"{partitions} partitions of {topic}")

    def trim(self, topic: str, partition: int, before: int) -> None:
        delete_records(self.cluster, {TopicPartition(topic, partition): before})

    def delete(self, topic: str) -> None:
        delete_topic(self.cluster, topic)
        self.cluster.forget()
        wait_until(lambda: topic not in self.cluster.existing([topic]).topics, what=f"topic {topic} to go")

    def wait_for_end(self, topic: str, end: int, partition: int = 0) -> None:
        """Until everything before `end` can be read: Kafka ends a transaction a moment after it said so."""
        one = TopicPartition(topic, partition)
        wait_until(lambda: end_offsets(self.cluster, [one], Isolation.READ_COMMITTED)[one] >= end, what=f"{one} to reach {end}")

    def records(self, topic: str) -> list[Received]:
        """Everything a read_committed reader sees, in the order of partitions and offsets."""
        self.cluster.forget()
        partitions = [TopicPartition(topic, one.index) for one in self.cluster.topic(topic).partitions]
        reader = Reader(self.cluster, start_offsets(self.cluster, partitions))
        ends = end_offsets(self.cluster, partitions)
        found: list[Received] = []
        while any(reader.positions[partition] < end for partition, end in ends.items()):
            found += reader.poll()
        reader.close()
        return sorted(found, key=lambda one: (one.partition, one.offset))


@contextlib.contextmanager
def real_kafka(**settings: object) -> Iterator[str]:
    """The address of a Kafka in a small Java process; an underscore in a setting's name stands for a dot."""
    require_kafka()
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    overrides = {"group.initial.rebalance.delay.ms": 0, "log.retention.check.interval.ms": 200}
    overrides |= {name.replace("_", "."): value for name, value in settings.items()}
    try:
        with start_kafka(folder, overrides=overrides, jvm=SMALL_JVM) as server:
            yield server.bootstrap
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def require_kafka() -> None:
    if shutil.which("java") is None:
        pytest.skip("a real Kafka needs Java 17 or newer")
    try:
        kafka_libs()
    except PeerError as error:
        pytest.skip(f"no Kafka to compare with: {error}")
