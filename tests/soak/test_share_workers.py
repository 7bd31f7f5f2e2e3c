"""A pool of workers on a share group, with poison among the records that kills whoever touches it, workers killed at random
and the server killed at random: in the end every record was accepted or is in the dead-letter topic, every poison is there,
once, with its history, and nothing that was accepted was ever delivered again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

WORKER = Path(__file__).with_name("share_worker.py")
TOPIC, GROUP, DEAD = "jobs", "pool", "dlq.jobs"
PARTITIONS = 2
WORKERS = 3
DELIVERIES = 4
QUIET = {"log_level": 2}


class Pool:
    """Workers; one that dies is replaced. `accepted` counts what they were promised is remembered."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._guard = threading.Lock()
        self._open = True
        self.accepted: Counter[tuple[int, int]] = Counter()
        self.deaths = 0
        self.workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), self._bootstrap, GROUP, TOPIC],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            partition, offset, _ = line.split(maxsplit=2)
            with self._guard:
                self.accepted[int(partition), int(offset)] += 1
        worker.wait()
        with self._guard:
            if self._open:
                self.deaths += 1
                self.workers.remove(worker)
                self.workers.append(self._start())

    def kill_one(self, chance: random.Random) -> None:
        with self._guard:
            chance.choice(self.workers).kill()

    def close(self) -> None:
        with self._guard:
            self._open = False
        for worker in self.workers:
            worker.kill()
            worker.wait()


def configure(admin: AdminClient, **config: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)]
    ).values():
        future.result(15)


def dead_letters(bootstrap: str) -> list[tuple[str, dict[str, str]]]:
    """Every dead letter: its value, and what its headers say."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True, **QUIET})
    try:
        known = reader.list_topics(DEAD, timeout=10).topics[DEAD]
        if known.error is not None:
            return []
        reader.assign([TopicPartition(DEAD, partition, 0) for partition in known.partitions])
        found, ended = [], 0
        while ended < len(known.partitions):
            message = reader.poll(10)
            assert message is not None
            if message.error() is not None:
                ended += 1
            else:
                headers = {name: value.decode() for name, value in message.headers() or []}
                found.append((message.value().decode(), headers))
        return found
    finally:
        reader.close()


def lag(bootstrap: str) -> int:
    """How many records are not done."""
    told = subprocess.run(
        [sys.executable, "-m", "headrace", "group", "lag", GROUP, "--json", "--server", bootstrap],
        capture_output=True,
        text=True,
        timeout=30,
    )
    return json.loads(told.stdout)["groups"][0]["lag"] if told.returncode == 0 else -1


def test_nothing_is_lost_and_poison_ends_in_the_dead_letter_topic(kills: int, chance: random.Random):
    records, poisons = (60, 2) if kills < 10 else (2_000, 20)
    values = [f"job {number}" for number in range(records)] + [f"poison {number}" for number in range(poisons)]
    chance.shuffle(values)
    with HeadraceServer() as server:
        admin = AdminClient({"bootstrap.servers": server.kafka, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(15)
        configure(
            admin,
            share_auto_offset_reset="earliest",
            share_delivery_count_limit=str(DELIVERIES),
            errors_deadletterqueue_topic_name=DEAD,
        )
        where = produce(server.kafka, values)
        pool = Pool(server.kafka)
        try:
            campaign(server, pool, kills, chance)
            wait_until(lambda: finished(server, pool, where), timeout_s=120 if kills < 10 else 900, what="all records done")
        finally:
            pool.close()
        check(where, pool, dead_letters(server.kafka))


def produce(bootstrap: str, values: list[str]) -> dict[tuple[int, int], str]:
    """Where each of them is."""
    where: dict[tuple[int, int], str] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **QUIET})
    for number, value in enumerate(values):
        producer.produce(
            TOPIC,
            value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, message: where.update(
                {(message.partition(), message.offset()): message.value().decode()}
            ),
        )
    assert producer.flush(30) == 0
    return where


def campaign(server: HeadraceServer, pool: Pool, kills: int, chance: random.Random) -> None:
    for number in range(kills):
        before = len(pool.accepted)
        try:
            wait_until(lambda: len(pool.accepted) > before, timeout_s=chance.uniform(0.2, 1.5), what="progress")  # noqa: B023
        except AssertionError:
            pass  # nothing left but poison, or workers that are just starting: the kill comes all the same
        if number % 3 == 0:
            server.crash()
            server.restart()
        else:
            pool.kill_one(chance)


def finished(server: HeadraceServer, pool: Pool, where: dict[tuple[int, int], str]) -> bool:
    time.sleep(0.2)  # not a wait for anything: reading all dead letters without a pause would only slow the workers down
    dead = {
        (int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"]))
        for _, headers in dead_letters(server.kafka)
    }
    missing = set(where) - dead - set(pool.accepted)
    # A worker may die between the server's promise and its own word: then the group's lag says that the record is done.
    return not missing or (len(dead) >= poison_count(where) and lag(server.kafka) == 0)


def poison_count(where: dict[tuple[int, int], str]) -> int:
    return sum(value.startswith("poison") for value in where.values())


def check(where: dict[tuple[int, int], str], pool: Pool, dead: list[tuple[str, dict[str, str]]]) -> None:
    places = [(int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"])) for _, headers in dead]
    assert len(places) == len(set(places)), "a dead letter was written twice"
    for place, (value, headers) in zip(places, dead, strict=True):
        assert where[place] == value
        assert headers["__dlq.errors.topic"] == TOPIC
        assert headers["__dlq.errors.group"] == GROUP
        assert headers["__dlq.errors.message"] == "Offset delivery count exceeded the threshold."
        assert int(headers["__dlq.errors.delivery.count"]) == DELIVERIES
        assert int(headers["__dlq.errors.timestamp"]) > 0
    poison = {place for place, value in where.items() if value.startswith("poison")}
    assert poison <= set(places), "poison that is not in the dead-letter topic"
    assert not poison & set(pool.accepted)
    again = {place for place, times in pool.accepted.items() if times > 1}
    assert not again, f"accepted for good and delivered again: {sorted(again)}"
    assert not set(pool.accepted) & set(places), "accepted for good and given up"
    assert pool.deaths > 0
