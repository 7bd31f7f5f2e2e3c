"""A compacted topic as other projects' clients see it: from the first offset, in a gap, by time, and with transactions.

The same tests hold on a real Kafka (see conftest.py). What is cleaned when differs a little from server to server, so they ask
for what must hold once cleaning has happened.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.interop.jars import KAFKA

from headrace.testing import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

KEYS = 7
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "9000",  # of record time: a new segment begins every hundred records
    "delete.retention.ms": "600000",
}


@pytest.fixture(scope="module", autouse=True)
def an_eager_cleaner(admin: AdminClient) -> Iterator[None]:
    [broker] = admin.list_topics(timeout=15).brokers
    for operation, value in ((AlterConfigOpType.SET, "100"), (AlterConfigOpType.DELETE, "")):
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(15)
        if operation is AlterConfigOpType.SET:
            yield


Row = tuple[int, int, bytes, bytes | None]  # offset, timestamp, key, value


def write(bootstrap: str, topic: str, count: int, **settings: Any) -> list[Row]:
    """So many records, a tenth of a second apart by their own time, a tombstone among them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 10, **settings})
    began = int(time.time() * 1000) - 1_000_000
    rows: list[Row] = []
    for number in range(count):
        key = b"gone" if number in (3, 23) else b"k%d" % (number % KEYS)
        value = None if number == 23 else b"%d" % number
        rows.append((number, began + number * 100, key, value))
        producer.produce(topic, value, key, partition=0, timestamp=began + number * 100)
        if number % 20 == 19:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0
    return rows


def read(bootstrap: str, topic: str, offset: int = 0) -> list[Row]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        rows: list[Row] = []
        while True:
            message = consumer.poll(15)
            assert message is not None
            if message.error():
                return rows
            rows.append((message.offset(), message.timestamp()[1], message.key(), message.value()))
    finally:
        consumer.close()


def is_compacted(rows: list[Row], seen: list[Row]) -> bool:
    """Nothing but the last of each key is left below some offset, and everything from there on."""
    offsets = {row[0] for row in seen}
    whole_from = next(offset for offset in range(len(rows), -1, -1) if offset == 0 or offset - 1 not in offsets)
    for split in range(whole_from, len(rows) + 1):
        newest = {row[2]: row for row in rows[:split]}
        if seen == [row for row in rows if row[0] >= split or newest[row[2]] == row]:
            return 0 < len(newest) < split and split > len(rows) // 2
    return False


@pytest.fixture
def compacted(bootstrap: str, make_topic: Callable[..., str]) -> tuple[str, list[Row], list[Row]]:
    topic = make_topic(config=COMPACTED)
    rows = write(bootstrap, topic, 600)
    wait_until(lambda: is_compacted(rows, read(bootstrap, topic)), what="compaction", timeout_s=60)
    return topic, rows, read(bootstrap, topic)


def test_the_newest_of_each_key_is_read_from_zero_and_from_within_a_gap(
    bootstrap: str, compacted: tuple[str, list[Row], list[Row]]
) -> None:
    topic, rows, seen = compacted
    assert len(seen) < 250
    assert (23, rows[23][1], b"gone", None) in seen, "a tombstone is kept for its time"
    assert 3 not in {row[0] for row in seen}, "and what it deletes is gone"
    for offset in (0, 1, 50, 199, 333, seen[-1][0]):
        assert read(bootstrap, topic, offset) == [row for row in seen if row[0] >= offset]


def test_times_lead_to_records_that_are_there(bootstrap: str, compacted: tuple[str, list[Row], list[Row]]) -> None:
    topic, rows, seen = compacted
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        for number in range(0, 600, 37):
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, rows[number][1])], timeout=15)
            assert found.offset == next(row[0] for row in seen if row[1] >= rows[number][1])
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_compacted(bootstrap: str, make_topic: Callable[..., str], codec: str) -> None:
    topic = make_topic(config=COMPACTED)
    rows = write(bootstrap, topic, 400, **{"compression.type": codec, "enable.idempotence": True})
    wait_until(lambda: is_compacted(rows, read(bootstrap, topic)), what="compaction", timeout_s=60)


def test_of_transactions_only_what_was_committed_is_left(
    bootstrap: str, make_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = make_topic(config={**COMPACTED, "segment.bytes": str(1024 * 1024)})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("compaction")})
    producer.init_transactions(30)
    newest: dict[bytes, bytes] = {}
    for number in range(60):
        producer.begin_transaction()
        rows = {b"k%d" % key: b"%d-" % number + bytes(25_000) for key in range(KEYS) if (number + key) % 3}
        for key, value in rows.items():
            producer.produce(topic, value, key, partition=0)
        if number % 4 == 3:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            newest |= rows
    wait_until(lambda: len(read(bootstrap, topic)) < 120, what="compaction", timeout_s=60)
    seen = read(bootstrap, topic)
    assert {row[2]: row[3] for row in seen} == newest
    values = [int(row[3].split(b"-")[0]) for row in seen if row[3]]
    assert not [number for number in values if number % 4 == 3], "nothing that was aborted"


def test_the_java_consumer_reads_it_to_its_end(
    bootstrap: str, compacted: tuple[str, list[Row], list[Row]], tmp_path: Path
) -> None:
    topic, rows, seen = compacted
    times = [rows[number][1] for number in (0, 60, 400, 599)]
    command = KAFKA.command("ReadCompacted.java", bootstrap, topic, *map(str, times))
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    lines = run.stdout.splitlines()
    expected = [f"{o} {t} {k.decode()} {v.decode() if v is not None else '-'}" for o, t, k, v in seen]
    expected += [f"time {when} {next(row[0] for row in seen if row[1] >= when)}" for when in times]
    assert lines == expected, run.stderr
