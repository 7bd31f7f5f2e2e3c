"""An exactly-once copy of one topic to another, while server and application are killed with SIGKILL again and again: readers
of committed records see every record once, in order, and nothing of what was aborted. The history of all that clients did and
saw is checked as a whole."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.history.history import Asked, Ended, Event, Reached, Read, Wrote, problems
from tests.interop.jars import KAFKA

from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SOURCE, TARGET = "source", "target"
PARTITIONS = 2
ROUND_RECORDS = 300
PROGRESS_TIMEOUT_S = 90.0
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 100, "metadata.recovery.strategy": "none"}  # see copier.py


class Application:
    """The copier's process; started again when it ended."""

    def __init__(self, client: str, bootstrap: str, folder: Path, seed: int) -> None:
        self._client = client
        self._history = folder / "history"
        self._history.touch()
        self._output = folder / "output"
        self._arguments = (bootstrap, SOURCE, TARGET)
        self._seed = seed
        self._runs = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._runs += 1
        arguments = [*self._arguments, f"run{self._runs}", str(self._history), str(self._seed)]
        if self._client == "Java":
            command = KAFKA.command("Copier.java", *arguments)
        else:
            command = [sys.executable, str(Path(__file__).with_name("copier.py")), *arguments]
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def keep_running(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.start()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def events(self) -> Iterator[Event]:
        for line in self._history.read_text().split("\n")[:-1]:
            moment, what, transaction, *rest = line.split(" ")
            if what == "wrote":
                yield Wrote(float(moment), (TARGET, int(rest[0])), int(rest[1]), rest[2], transaction)
            else:
                kind = Asked if what == "asked" else Ended
                yield kind(float(moment), transaction, rest[0] == "commit")

    def output(self) -> str:
        return self._output.read_text()[-2000:]


class Reader(threading.Thread):
    """Reads committed records of the target from the first one on."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.reads: list[Read] = []
        self._address = bootstrap
        self._reached: dict[int, int] = {}
        self._stop_now = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(TARGET, partition, 0) for partition in range(PARTITIONS)])

    def run(self) -> None:
        while not self._stop_now.is_set():
            for message in self._consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    self.reads.append(_read(message, self.name))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._reached[message.partition()] = message.offset()
        self._consumer.close()

    def finish(self) -> list[Event]:
        """What it saw, and how far it came: up to where the target ends now."""
        ends = _ends(self._address)
        wait_until(
            lambda: all(self._reached.get(p, 0) >= end for p, end in ends.items()),
            timeout_s=PROGRESS_TIMEOUT_S,
            what=f"the end {ends}, now at {self._reached}",
        )
        self.stop()
        now = time.monotonic()
        return [*self.reads, *(Reached(now, self.name, (TARGET, partition), end) for partition, end in ends.items())]

    def stop(self) -> None:
        self._stop_now.set()
        self.join()


def _ends(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", **QUIET})
    try:
        return {p: consumer.get_watermark_offsets(TopicPartition(TARGET, p), 20)[1] for p in range(PARTITIONS)}
    finally:
        consumer.close()


def _read(message: Message, reader: str) -> Read:
    [(_, transaction)] = message.headers()
    place = (TARGET, message.partition())
    return Read(time.monotonic(), reader, place, message.offset(), message.value().decode(), transaction.decode())


class Feed:
    """Writes 0, 1, 2, … to the source."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 1, **QUIET}
        )

    def more(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(SOURCE, b"%d" % self.count, partition=self.count % PARTITIONS)
            self.count += 1
        assert self._producer.flush(PROGRESS_TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("client", "durability"), [("confluent-kafka", "fsync"), ("confluent-kafka", "flush"), ("Java", "fsync")]
)
def test_a_copy_is_exactly_once_while_everything_is_killed(client, durability, headrace_factory, kills, chance, tmp_path):
    server: HeadraceServer = headrace_factory(
        durability=durability,
        settings={
            "log.segment.bytes": chance.choice([2**20, 2**30]),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        },
    )
    admin = AdminClient({"bootstrap.servers": server.kafka, **QUIET})
    for made in admin.create_topics([NewTopic(SOURCE, PARTITIONS, 1), NewTopic(TARGET, PARTITIONS, 1)]).values():
        made.result(20)
    feed, application = Feed(server.kafka), Application(client, server.kafka, tmp_path, chance.randrange(2**32))
    reader = Reader(server.kafka, "along")
    reader.start()
    try:
        for _ in range(kills):
            feed.more(ROUND_RECORDS)
            application.keep_running()
            _wait_for(reader, len(reader.reads) + chance.randrange(1, ROUND_RECORDS), application)
            time.sleep(chance.uniform(0, 0.02))  # not to wait for anything: so that the kill meets any moment
            _kill_something(chance, server, application)
        feed.more(ROUND_RECORDS)
        _wait_for(reader, feed.count, application)
    finally:
        application.kill()
    server.crash()
    server.restart()
    again = Reader(server.kafka, "again")
    again.start()
    history = [*application.events(), *reader.finish(), *again.finish()]
    assert problems(history) == []
    for each in (reader, again):
        numbers = [int(read.value) for read in each.reads]
        assert sorted(numbers) == list(range(feed.count))
        for partition in range(PARTITIONS):
            assert [int(r.value) for r in each.reads if r.place[1] == partition] == list(
                range(partition, feed.count, PARTITIONS)
            )


def _wait_for(reader: Reader, count: int, application: Application) -> None:
    def enough() -> bool:
        application.keep_running()
        return len(reader.reads) >= count

    try:
        wait_until(enough, timeout_s=PROGRESS_TIMEOUT_S, what=f"{count} records, now {len(reader.reads)}")
    except AssertionError as error:
        raise AssertionError(f"{error}; {application.output()}") from None


def _kill_something(chance: random.Random, server: HeadraceServer, application: Application) -> None:
    victims = chance.choice(["server", "application", "both"])
    if victims != "application":
        server.crash()
    if victims != "server":
        application.kill()
    if victims != "application":
        server.restart()
