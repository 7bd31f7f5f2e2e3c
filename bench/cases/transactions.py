"""Transactions from librdkafka: small ones, where beginning and ending is the work, and large ones, where the records are."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig

DEADLINE_S = 30.0
SHAPES = {"small": (10, 100, 600), "large": (1000, 1000, 150)}  # records, bytes of each, transactions


def transact(rig: Rig, topic: str, records: int, size: int, transactions: int) -> float:
    """Transactions a second."""
    producer = Producer(
        {
            "bootstrap.servers": rig.server.bootstrap,
            "transactional.id": topic,
            "linger.ms": 1,
            "queue.buffering.max.kbytes": 65536,
        }
    )
    producer.init_transactions(DEADLINE_S)
    value = bytes(size)
    before = rig.end_offsets(topic)
    for number in range(-transactions // 4, transactions):  # the first quarter warms up
        if number == 0:
            began = time.perf_counter()
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, value)
        producer.commit_transaction(DEADLINE_S)
    took = time.perf_counter() - began
    total = (transactions + -(-transactions // 4)) * (records + 1)  # and a marker for each
    if (grown := rig.end_offsets(topic) - before) != total:
        raise LoadError(f"{topic} grew by {grown} offsets where {total} were committed")
    return transactions / took


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    measured: Measured = {}
    for key, (records, size, full) in SHAPES.items():
        topic = f"txn-{key}"
        rig.create_topic(topic)
        rate = transact(rig, topic, records, size, max(20, int(full * rig.effort.scale)))
        measured[key] = rate if key == "small" else rate * records * size / 1e6
    return measured


ROWS = (
    Row("small", "10 records of 100 B in each", "transactions/s", aim_ratio=1.0),
    Row("large", "1,000 records of 1 KB in each", "MB/s", aim_ratio=1.0),
)

CASES = (
    Case(
        name="transactions",
        title="Transactions, synced",
        about="One producer of confluent-kafka, one partition, a commit after each transaction. Headrace by default "
        "against Kafka with `flush.messages=1`: both sync before they acknowledge.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA_SYNCED,
        measure=measure,
        rows=ROWS,
    ),
    Case(
        name="transactions-unsynced",
        title="Transactions, records not synced",
        about="The same with `--durability flush` against Kafka as shipped. Headrace still syncs each commit, because the "
        "state of transactions is a table; Kafka syncs nothing.",
        ours=Mode.HEADRACE_FLUSH,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=ROWS,
    ),
)
