"""Streaming queries that copy topics exactly once, while their driver, their workers and the server are killed with SIGKILL
again and again: readers of committed records see every row once, whatever was killed when.

A driver is killed in the worst moment there is: after a task has committed its rows, before Spark has noted the batch as done,
so that Spark must replay it. That moment is found from outside, by the task's marker and the files of the checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.client.kafka import ClientError, Cluster, Isolation, Reader, end_offsets, start_offsets
from headrace.client.kafka import TopicPartition as Place
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("pyspark")

from headrace.spark.java import SparkUnavailable, require_spark
from headrace.spark.sink.markers import read_marker

pytestmark = [pytest.mark.soak, pytest.mark.timeout(14_400)]

PARTITIONS = 2
TASKS = 3
QUERIES = ("plain", "shuffled")
ROUND_RECORDS = 600
PROGRESS_TIMEOUT_S = 400.0
JUDGED_EVERY = 10  # kills
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}


class Checkpoint:
    """What Spark has noted about a query, as files tell it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def query_id(self) -> str | None:
        try:
            return str(json.loads((self._folder / "metadata").read_text())["id"])
        except (OSError, ValueError):
            return None

    def planned(self) -> int:
        return _newest(self._folder / "offsets")

    def done(self) -> int:
        return _newest(self._folder / "commits")

    def is_done(self, batch: int) -> bool:
        return (self._folder / "commits" / str(batch)).exists()

    def records_done(self) -> int:
        """How many records of the source the batches that are done have read."""
        lines = (self._folder / "offsets" / str(self.done())).read_text().splitlines() if self.done() >= 0 else [""]
        return _sum(json.loads(lines[-1])) if lines[-1] else 0


def _newest(folder: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def _sum(offsets: object) -> int:
    return offsets if isinstance(offsets, int) else sum(map(_sum, offsets.values()))  # type: ignore[attr-defined]


class Application:
    """The driver's process and what belongs to it; started again when it ended."""

    def __init__(self, bootstrap: str, folder: Path, master: str) -> None:
        self._arguments = [bootstrap, str(folder), master]
        self._output = folder / "output"
        self.checkpoints = {name: Checkpoint(folder / name) for name in QUERIES}
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.ends: Counter[int] = Counter()  # by return code

    def keep_running(self) -> None:
        if self.process is None or self.process.poll() is not None:
            if self.process is not None:
                self.ends[self.process.returncode] += 1
            self.end()
            self.starts += 1
            command = [sys.executable, str(Path(__file__).with_name("spark_copier.py")), *self._arguments]
            with self._output.open("ab") as output:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )

    def kill_driver(self) -> None:
        """Python and Java; workers live on for a moment, as they may on another machine."""
        assert self.process is not None
        pids = [self.process.pid, *(pid for pid, line in self._family() if "SparkSubmit" in line)]
        for pid in pids:
            _kill(pid)
        self.process.wait()

    def workers(self) -> list[int]:
        """Python workers of tasks, not those that plan on the driver: without these a query ends."""
        workers = [pid for pid, line in self._family() if "pyspark.daemon pyspark.worker" in line]
        return [pid for pid in workers if _parent(pid) in workers]

    def executors(self) -> list[int]:
        return [pid for pid, line in self._family() if "CoarseGrainedExecutorBackend" in line]

    def end(self) -> None:
        """Everything, also what a killed driver has left."""
        for pid, _ in self._family():
            _kill(pid)
        if self.process is not None:
            _kill(self.process.pid)
            self.process.wait()

    def _family(self) -> list[tuple[int, str]]:
        return [] if self.process is None else list(_descendants(self.process.pid))

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-3000:] if self._output.exists() else ""


def _descendants(root: int) -> Iterator[tuple[int, str]]:
    parents = {int(name): _parent(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    for pid in parents:
        above: int | None = pid
        while above is not None and above > 1 and above != root:
            above = parents.get(above)
        if above == root and pid != root:
            try:
                yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Feed:
    """Writes 0, 1, 2, … to the source, some of them twice."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self.values: list[bytes] = []
        self._next = 0
        self._chance = chance
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 1, **QUIET}
        )

    def more(self, count: int) -> None:
        for _ in range(count):
            if self.values and self._chance.random() < 0.1:
                value = self._chance.choice(self.values)
            else:
                value = b"%d" % self._next
                self._next += 1
            self._producer.produce("source", value, key=b"k" + value[-2:], partition=len(self.values) % PARTITIONS)
            self.values.append(value)
        assert self._producer.flush(PROGRESS_TIMEOUT_S) == 0


class Campaign:
    def __init__(self, server: HeadraceServer, application: Application, feed: Feed, chance: random.Random) -> None:
        self._server = server
        self._application = application
        self._feed = feed
        self._chance = chance
        self._cluster = Cluster(server.kafka)
        self.kills: Counter[str] = Counter()

    def kill(self, what: str) -> None:
        if what == "driver":
            self.kills[f"driver, {self._kill_between()}"] += 1
            return
        time.sleep(self._chance.uniform(0, 0.3))  # not to wait for anything: so that the kill meets any moment
        if what == "server":
            self._server.crash()
            self._server.restart()
            self.kills["server"] += 1
            return
        running = self._application.executors() if what == "executor" else self._application.workers()
        if running:
            _kill(self._chance.choice(running))
            self.kills[what] += 1

    def _kill_between(self) -> str:
        """Kills the driver when a batch has a task that committed, and is not done. Returns whether that was met."""
        name = self._chance.choice(QUERIES)
        checkpoint = self._application.checkpoints[name]
        spare = self._chance.randrange(TASKS)  # how many tasks may commit before the kill
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while time.monotonic() < deadline:
            self._application.keep_running()
            if self.is_idle():
                self._feed.more(ROUND_RECORDS)
            batch = checkpoint.planned()
            if batch >= 0 and not checkpoint.is_done(batch):
                if self._committed(checkpoint, batch) > spare:
                    self._application.kill_driver()
                    met = not checkpoint.is_done(batch) and self._committed(checkpoint, batch) > 0
                    return "between task and batch commit" if met else "a moment too late"
            else:
                spare = 0 if self._chance.random() < 0.3 else spare  # fewer tasks than that may have rows
        raise AssertionError(f"no batch of {name} in {PROGRESS_TIMEOUT_S:g} s; {self._application.output()}")

    def _committed(self, checkpoint: Checkpoint, batch: int) -> int:
        query = checkpoint.query_id()
        try:
            markers = [read_marker(self._cluster, f"headrace-spark-{query}-{task}") for task in range(TASKS)]
        except ClientError:
            return 0
        return sum(marker is not None and marker.batch >= batch for marker in markers)

    def is_idle(self) -> bool:
        total = len(self._feed.values)
        return all(one.records_done() >= total for one in self._application.checkpoints.values())

    def go_on(self) -> None:
        """Until both queries have done something since, or have nothing to do."""
        before = {name: one.done() for name, one in self._application.checkpoints.items()}

        def more() -> bool:
            self._application.keep_running()
            moved = all(one.done() > before[name] for name, one in self._application.checkpoints.items())
            return moved or self.is_idle()

        self._wait(more, "another batch")

    def finish(self) -> None:
        def everything() -> bool:
            self._application.keep_running()
            return self.is_idle()

        self._wait(everything, f"all {len(self._feed.values)} rows")

    def _wait(self, condition, what: str) -> None:
        try:
            wait_until(condition, timeout_s=PROGRESS_TIMEOUT_S, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._application.output()}") from None


def committed_values(bootstrap: str, topic: str) -> Counter[bytes]:
    cluster = Cluster(bootstrap)
    places = [Place(topic, partition) for partition in range(PARTITIONS)]
    ends = end_offsets(cluster, places, Isolation.READ_COMMITTED)
    reader = Reader(cluster, start_offsets(cluster, places), isolation=Isolation.READ_COMMITTED)
    seen: Counter[bytes] = Counter()
    while any(reader.positions[place] < end for place, end in ends.items()):
        seen.update(record.value for record in reader.poll())
    return seen


def values_seen_by_librdkafka(bootstrap: str, topic: str) -> Counter[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen: Counter[bytes] = Counter()
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(500, 1):
            if message.error() is None:
                seen[message.value()] += 1
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended += 1
    consumer.close()
    return seen


VICTIMS = {  # by how many in ten; drivers are slow to start again
    "local[2,8]": {"driver": 3, "worker": 4, "server": 3},
    "local-cluster[2,1,512]": {"executor": 6, "worker": 2, "server": 2},
}


@pytest.mark.parametrize("master", list(VICTIMS))
def test_every_row_is_written_once_whatever_is_killed(master, headrace_factory, kills, chance, tmp_path, request, capsys):
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    long = request.config.getoption("--soak")
    if not long and master != "local[2,8]":
        pytest.skip("three Java machines: with --soak only")
    server: HeadraceServer = headrace_factory(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500})
    cluster = Cluster(server.kafka)
    for topic in ("source", *QUERIES):
        create_topic(cluster, topic, partitions=PARTITIONS)
        wait_until_led(cluster, topic)
    application, feed = Application(server.kafka, tmp_path, master), Feed(server.kafka, chance)
    campaign = Campaign(server, application, feed, chance)
    victims = VICTIMS[master]
    plan = ["driver", "worker", "server"] if not long else chance.choices(list(victims), list(victims.values()), k=kills)
    try:
        feed.more(ROUND_RECORDS)
        application.keep_running()
        campaign.go_on()
        for number, what in enumerate(plan, 1):
            if campaign.is_idle():
                feed.more(ROUND_RECORDS)
            campaign.kill(what)
            campaign.go_on()
            if number % JUDGED_EVERY == 0 or number == len(plan):
                campaign.finish()
                judge(server.kafka, feed.values)
                with capsys.disabled():
                    report = f"{master}: {dict(campaign.kills)}, {len(feed.values)} rows, each seen once"
                    print(f"\n{report}; starts {application.starts}, ends {dict(application.ends)}", flush=True)  # noqa: T201
    finally:
        application.end()


def judge(bootstrap: str, fed: list[bytes]) -> None:
    wanted = {"plain": Counter(fed), "shuffled": Counter(set(fed))}
    for topic in QUERIES:
        for look in (committed_values, values_seen_by_librdkafka):
            seen = look(bootstrap, topic)
            assert seen - wanted[topic] == Counter(), f"{topic}: rows too many"
            assert wanted[topic] - seen == Counter(), f"{topic}: rows missing"
