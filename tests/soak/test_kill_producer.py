"""Producers killed with SIGKILL and started anew, the server now and then too: of each producer's records a prefix is there,
in order and without repeats, and it holds everything that was acknowledged, where the acknowledgement said."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

TOPIC = "producers"
PARTITIONS = 2
PROGRESS_TIMEOUT_S = 60.0


def test_every_acknowledged_record_survives_killed_producers(headrace_factory, kills, chance, tmp_path):
    server = headrace_factory()
    admin = AdminClient({"bootstrap.servers": server.kafka, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    reports: list[Path] = []
    for run in range(2 * kills):
        reports.append(tmp_path / f"acknowledged-{run}")
        with reports[-1].open("wb") as output:
            writer = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("writer.py")), server.kafka, TOPIC, str(PARTITIONS), str(run)],
                stdin=subprocess.DEVNULL,
                stdout=output,
            )
        try:
            goal = chance.randrange(1, 50_000)
            size = reports[-1].stat
            wait_until(lambda: size().st_size >= goal, timeout_s=PROGRESS_TIMEOUT_S, what=f"acknowledgements of run {run}")  # noqa: B023
            assert writer.poll() is None
            time.sleep(chance.uniform(0, 0.02))  # not to wait for anything: so that the kill meets any moment of a batch
            if chance.random() < 0.3:
                server.crash()
                server.restart()
        finally:
            writer.kill()
            writer.wait()
    stored = read_all(server.kafka)
    for run, report in enumerate(reports):
        for partition in range(PARTITIONS):
            found = [(number, offset) for of, number, offset in stored[partition] if of == run]
            assert [number for number, _ in found] == list(range(len(found))), f"run {run}, partition {partition}"
            for number, offset in acknowledged(report, partition):
                assert found[number] == (number, offset)
    for partition in range(PARTITIONS):
        assert [offset for _, _, offset in stored[partition]] == list(range(len(stored[partition])))


def acknowledged(report: Path, partition: int) -> list[tuple[int, int]]:
    whole_lines = report.read_text().split("\n")[:-1]
    rows = [tuple(map(int, line.split())) for line in whole_lines]
    return [(number, offset) for of, number, offset in rows if of == partition]


def read_all(bootstrap: str) -> list[list[tuple[int, int, int]]]:
    """For every partition (run, number, offset) of every record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    stored: list[list[tuple[int, int, int]]] = [[] for _ in range(PARTITIONS)]
    ends = [
        consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 20, cached=False)[1] for partition in range(PARTITIONS)
    ]
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    deadline = time.monotonic() + PROGRESS_TIMEOUT_S
    while any(len(records) < end for records, end in zip(stored, ends, strict=True)):
        assert time.monotonic() < deadline, f"{[len(records) for records in stored]} of {ends} records"
        for message in consumer.consume(1000, 0.2):
            if message.error():
                raise KafkaException(message.error())
            run, number = message.value().split()
            stored[message.partition()].append((int(run), int(number), message.offset()))
    consumer.close()
    return stored
