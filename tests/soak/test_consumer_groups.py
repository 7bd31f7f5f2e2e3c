"""Members of a consumer group (KIP-848) that come, leave, and stop without a word, while the server is killed now and then and
records keep coming: every record is read, in order within what one member reads of a partition, commits never go back, and in
the end the partitions are shared evenly."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "shared"
PARTITIONS = 6
MOST_MEMBERS = 4
QUICK = {
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_session_timeout_ms": 2000,
    "group_consumer_min_session_timeout_ms": 1000,
    "group_consumer_assignment_interval_ms": 100,
}


class Member:
    def __init__(self, bootstrap: str, read: dict[int, set[int]]) -> None:
        self._read = read
        self._last: dict[int, int] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                "log_level": 2,
            }
        )
        self.consumer.subscribe([TOPIC], on_assign=self._fresh)

    def _fresh(self, _: Any, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._last.pop(one.partition, None)

    def poll(self) -> None:
        message = self.consumer.poll(0.01)
        if message is None or message.error():
            return
        partition, offset = message.partition(), message.offset()
        assert offset > self._last.get(partition, -1), "read again what it had read"
        self._last[partition] = offset
        self._read[partition].add(offset)

    def commit(self) -> None:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException:
            pass  # fenced, or the server is down: somebody reads it again


def test_a_group_reads_everything_whoever_dies(headrace_factory, kills, chance):
    server = headrace_factory(**QUICK)
    admin = AdminClient({"bootstrap.servers": server.kafka, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": server.kafka, "enable.idempotence": True, "linger.ms": 0, "log_level": 2})
    read: dict[int, set[int]] = defaultdict(set)
    produced = [0] * PARTITIONS
    members = [Member(server.kafka, read)]
    committed = [0] * PARTITIONS
    for step in range(kills * 4):
        for _ in range(20):
            partition = chance.randrange(PARTITIONS)
            producer.produce(TOPIC, b"x", partition=partition)
            produced[partition] += 1
        for _ in range(chance.randrange(5, 40)):
            for member in members:
                member.poll()
        happens = chance.random()
        if happens < 0.35 and len(members) < MOST_MEMBERS:
            members.append(Member(server.kafka, read))
        elif happens < 0.6 and len(members) > 1:
            members.pop(chance.randrange(len(members))).consumer.close()
        elif happens < 0.75:
            chance.choice(members).commit()
            committed = later(server.kafka, committed)
        elif step % 4 == 3:
            server.crash()
            server.start()
    assert producer.flush(60) == 0

    def polled() -> bool:
        for member in members:
            member.poll()
        return all(len(read[partition]) >= produced[partition] for partition in range(PARTITIONS))

    wait_until(lambda: polled() or None, timeout_s=120, what="everything is read")
    for partition in range(PARTITIONS):
        assert read[partition] == set(range(produced[partition]))
    wait_until(lambda: (polled() and even(members)) or None, timeout_s=60, what="an even share")
    for member in members:
        member.commit()
    later(server.kafka, committed)
    for member in members:
        member.consumer.close()


def even(members: list[Member]) -> bool:
    loads = [len(member.consumer.assignment()) for member in members]
    return sum(loads) == PARTITIONS and max(loads) - min(loads) <= 1


def later(bootstrap: str, before: list[int]) -> list[int]:
    """What is committed now, which is never less than before."""
    watcher = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 2})
    found = watcher.committed([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], timeout=30)
    watcher.close()
    now = [max(one.offset, 0) for one in found]
    assert all(new >= old for new, old in zip(now, before, strict=True)), (before, now)
    return now
