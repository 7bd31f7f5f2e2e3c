"""The archive as clients see it: confluent-kafka and Java read what left the disk, from a folder and from an S3-compatible
server (moto's, in a process of its own)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.interop.jars import KAFKA

from headrace.client.kafka import Cluster
from headrace.client.kafka import TopicPartition as Place
from headrace.client.kafka.topics import PartitionSize, partition_sizes
from headrace.testing import HeadraceServer, free_port, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

SEGMENT_BYTES = 1024 * 1024
LOCAL_BYTES = SEGMENT_BYTES
VALUE_BYTES = 8_000
QUICK = {
    "remote.log.manager.task.interval.ms": 100,
    "log.retention.check.interval.ms": 200,
    "headrace.archive.timeout.ms": 400,
}
CONFIG = {
    "segment.bytes": str(SEGMENT_BYTES),
    "remote.storage.enable": "true",
    "local.retention.bytes": str(LOCAL_BYTES),
    "retention.bytes": "-1",
    "retention.ms": "-1",  # the records are of another year
}


class Client:
    """What the tests do with a topic, through confluent-kafka."""

    def __init__(self, bootstrap: str, topic: str = "t") -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partition = TopicPartition(topic, 0)
        self.acknowledged = 0

    @property
    def admin(self) -> AdminClient:
        """A new one each time: librdkafka's may forget the only broker when that is restarted."""
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})  # kept, because its futures need it
        return self._admin

    def create(self, **config: str) -> None:
        self.admin.create_topics([NewTopic(self.topic, 1, 1, config=CONFIG | config)])[self.topic].result(15)

    def producer(self, **config: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True} | config)

    def produce(self, count: int, *, timeout_s: float = 60) -> None:
        """Records whose value begins with their offset."""
        producer = self.producer()
        for number in range(self.acknowledged, self.acknowledged + count):
            producer.produce(self.topic, b"%012d" % number + os.urandom(VALUE_BYTES), timestamp=1_700_000_000_000 + number)
            producer.poll(0)
        assert producer.flush(timeout_s) == 0
        self.acknowledged += count

    def read(self, start: int, count: int, *, timeout_s: float = 60.0, **config: Any) -> list[int]:
        """The numbers of `count` records from an offset on."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "auto.offset.reset": "error"} | config)
        consumer.assign([TopicPartition(self.topic, 0, start)])
        found: list[int] = []

        def more() -> bool:
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                number = int(message.value()[:12])
                assert message.offset() == number
                found.append(number)
            return len(found) >= count

        try:
            wait_until(more, timeout_s=timeout_s, what=f"{count} records from {start} on")
        finally:
            consumer.close()
        return found

    def offset(self, spec: OffsetSpec) -> int:
        return int(self.admin.list_offsets({self.partition: spec})[self.partition].result(15).offset)

    def sizes(self) -> PartitionSize:
        """As DescribeLogDirs tells them."""
        with closing(Cluster(self.bootstrap)) as cluster:
            [size] = partition_sizes(cluster, [Place(self.topic, 0)]).values()
            return size

    def described(self) -> dict[str, Any]:
        """The partition as the command line tells it."""
        told = subprocess.run(
            [sys.executable, "-m", "headrace", "topic", "describe", self.topic, "--json", "--server", self.bootstrap],
            capture_output=True,
            text=True,
            check=True,
        )
        [row] = json.loads(told.stdout)["topics"][0]["partitions"]
        return dict(row)

    def wait_until_archived(self) -> PartitionSize:
        """Until all but the last segments are, and no more is local than may be."""

        def done() -> PartitionSize | None:
            sizes = self.sizes()
            whole = self.acknowledged * VALUE_BYTES
            small = sizes.local <= LOCAL_BYTES + SEGMENT_BYTES
            return sizes if small and sizes.archived > whole - 2 * SEGMENT_BYTES else None

        return wait_until(done, timeout_s=60, what="the archive")


@pytest.fixture
def folder_server(tmp_path: Path) -> Iterator[HeadraceServer]:
    with HeadraceServer(settings=QUICK, arguments=["--archive", f"file://{tmp_path}/archive"]) as server:
        yield server


def objects(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]  # takes no offence at folders that go meanwhile


def test_a_topic_ten_times_larger_than_its_local_limit_is_read_from_the_first_offset(
    folder_server: HeadraceServer, tmp_path: Path
) -> None:
    client = Client(folder_server.kafka)
    client.create()
    client.produce(1600)
    sizes = client.wait_until_archived()
    assert sizes.archived > 10 * LOCAL_BYTES
    described = client.described()
    assert (described["start_offset"], described["end_offset"]) == (0, 1600)
    assert 0 < described["size_bytes"] <= sizes.local
    assert described["archived_bytes"] >= sizes.archived
    assert client.read(0, 1600) == list(range(1600))
    assert client.offset(OffsetSpec.for_timestamp(1_700_000_000_000 + 17)) == 17
    assert client.offset(OffsetSpec.earliest()) == 0
    folder_server.restart()
    assert client.read(0, 1600) == list(range(1600))
    assert client.offset(OffsetSpec.for_timestamp(1_700_000_000_000 + 777)) == 777
    _java_reads_it(folder_server.kafka, 1600)
    client.admin.delete_topics(["t"])["t"].result(15)
    wait_until(lambda: not objects(tmp_path / "archive"), what="an empty archive")


def _java_reads_it(bootstrap: str, count: int) -> None:
    if shutil.which("java") is None:
        return
    run = subprocess.run(KAFKA.command("ReadArchive.java", bootstrap, "t"), capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    offsets, found = run.stdout.splitlines()
    earliest, local, tiered, pending = map(int, offsets.split())
    assert earliest == 0 < local <= tiered + 1 == pending < count
    assert found == f"0 {count - 1} {count}"


def test_what_was_acknowledged_survives_kill_9_during_uploads(folder_server: HeadraceServer, tmp_path: Path) -> None:
    client = Client(folder_server.kafka)
    client.create()
    for turn in range(4):
        client.produce(400)
        if turn % 2:
            few = 2 * (turn + 1)
            wait_until(lambda few=few: len(objects(tmp_path / "archive")) >= few, what="a segment to be archived")
        folder_server.crash()
        folder_server.restart()
        assert client.read(0, client.acknowledged) == list(range(client.acknowledged))
    client.wait_until_archived()
    assert client.read(0, client.acknowledged) == list(range(client.acknowledged))


def test_records_that_are_deleted_leave_the_archive(folder_server: HeadraceServer, tmp_path: Path) -> None:
    client = Client(folder_server.kafka)
    client.create()
    client.produce(1000)
    client.wait_until_archived()
    client.admin.delete_records([TopicPartition("t", 0, 700)])[client.partition].result(15)
    wait_until(lambda: min(objects(tmp_path / "archive")) > f"{500:020d}", what="objects to go")
    assert client.offset(OffsetSpec.earliest()) == 700
    assert client.read(700, 300) == list(range(700, 1000))


# --- S3


class Moto:
    """moto's S3, which keeps everything in memory. It can be made to stop answering."""

    BUCKET = "headrace-archive"

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=self._log,
            stderr=self._log,
        )
        wait_until(self._answers, timeout_s=60, what="moto")
        import boto3

        self.client: Any = boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        self.client.create_bucket(Bucket=self.BUCKET)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=1):
                return True
        except OSError:
            return False

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.BUCKET)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.go_on()
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    server = Moto(tmp_path_factory.mktemp("moto") / "log")
    yield server
    server.close()


@pytest.fixture
def s3_server(moto: Moto, request: pytest.FixtureRequest) -> Iterator[HeadraceServer]:
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    options = {"headrace.archive.options": f"endpoint={moto.endpoint},region=us-east-1"}
    arguments = ["--archive", f"s3://{moto.BUCKET}/{request.node.name}"]
    with HeadraceServer(settings=QUICK | options, environment=environment, arguments=arguments) as server:
        yield server


def test_an_s3_compatible_server_holds_the_archive(s3_server: HeadraceServer, moto: Moto) -> None:
    client = Client(s3_server.kafka)
    client.create(**{"segment.bytes": str(9 * SEGMENT_BYTES), "local.retention.bytes": "1"})  # more than one part each
    client.produce(2500)
    wait_until(lambda: client.sizes().archived > 17 * SEGMENT_BYTES, timeout_s=60, what="the archive")
    wait_until(lambda: client.sizes().local < 10 * SEGMENT_BYTES, what="the archived segments to leave")
    assert client.read(0, 2500) == list(range(2500))
    assert client.offset(OffsetSpec.for_timestamp(1_700_000_000_000 + 17)) == 17
    s3_server.crash()
    s3_server.restart()
    assert client.read(0, 2500) == list(range(2500))
    client.admin.delete_topics(["t"])["t"].result(15)
    wait_until(lambda: not moto.keys(), what="an empty bucket")
    assert not moto.client.list_multipart_uploads(Bucket=moto.BUCKET).get("Uploads")


def test_a_store_that_stops_answering_holds_up_its_own_readers_only(s3_server: HeadraceServer, moto: Moto) -> None:
    client = Client(s3_server.kafka)
    client.create()
    client.produce(800)
    sizes = client.wait_until_archived()
    s3_server.restart()  # nothing of it is in memory
    moto.pause()
    try:
        old = Consumer({"bootstrap.servers": s3_server.kafka, "group.id": "g", "auto.offset.reset": "error"})
        old.assign([TopicPartition("t", 0, 0)])
        wait_until(lambda: old.poll(0.1) or "the archive can't be read" in s3_server.log_text(), timeout_s=30)
        client.produce(300)
        local = client.acknowledged - 100
        assert client.read(local, 100) == list(range(local, client.acknowledged))
        wait_until(lambda: "the archive can't be written" in s3_server.log_text(), timeout_s=30, what="a line in the log")
        assert client.sizes().local > sizes.local, "what is not archived stays here"
    finally:
        moto.go_on()
    message: Any = wait_until(lambda: old.poll(0.5), timeout_s=30, what="the archive again")
    assert (message.error(), message.offset()) == (None, 0)
    old.close()
    client.wait_until_archived()
    assert client.read(0, client.acknowledged) == list(range(client.acknowledged))
