"""The exactly-once sink without Spark around it, so that it can be killed hundreds of times: drivers, tasks and the server by
SIGKILL, tasks that outlive their driver, two attempts of a task at once. Readers of committed records see every row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.soak.sink_driver import TARGET, TASKS, rows_of
from tests.soak.test_spark_kills import committed_values, values_seen_by_librdkafka

from headrace.client.kafka import Cluster
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.testing import HeadraceServer, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

PARTITIONS = 2
PROGRESS_TIMEOUT_S = 120.0


class Application:
    def __init__(self, bootstrap: str, folder: Path, chance: random.Random) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._chance = chance
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("offsets", "commits"):
            (folder / name).mkdir()

    def keep_running(self) -> None:
        if self._process is None or self._process.poll() is not None:
            program = str(Path(__file__).with_name("sink_driver.py"))
            command = [sys.executable, program, self._bootstrap, str(self._folder), str(self._chance.random())]
            with (self._folder / "output").open("ab") as output:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def tasks(self) -> list[int]:
        assert self._process is not None
        try:
            text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        except OSError:
            return []
        return [int(pid) for pid in text.split()]

    def kill_driver(self, *, alone: bool) -> None:
        """Alone: its tasks go on, and meet those of the next driver."""
        assert self._process is not None
        tasks = self.tasks()
        self._process.kill()
        self._process.wait()
        for pid in () if alone else tasks:
            _kill(pid)

    def done(self) -> int:
        return max((int(name) for name in os.listdir(self._folder / "commits")), default=-1)

    def begun(self) -> int:
        return max((int(name) for name in os.listdir(self._folder / "offsets")), default=-1)

    def output(self) -> str:
        return (self._folder / "output").read_text(errors="replace")[-3000:]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.parametrize("durability", ["fsync", "flush"])
def test_every_row_is_written_once_whatever_is_killed(durability, headrace_factory, kills, chance, tmp_path, capsys):
    server: HeadraceServer = headrace_factory(durability=durability)
    cluster = Cluster(server.kafka)
    create_topic(cluster, TARGET, partitions=PARTITIONS)
    wait_until_led(cluster, TARGET)
    application = Application(server.kafka, tmp_path, chance)
    killed: Counter[str] = Counter()

    def reach(batch: int) -> None:
        def reached() -> bool:
            application.keep_running()
            return application.done() >= batch

        try:
            wait_until(reached, timeout_s=PROGRESS_TIMEOUT_S, what=f"batch {batch}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {application.output()}") from None

    try:
        for _ in range(kills):
            reach(application.done() + 1)
            time.sleep(chance.uniform(0, 0.3))  # not to wait for anything: so that the kill meets any moment
            what = chance.choice(["driver", "driver alone", "task", "task", "server"])
            if what == "server":
                server.crash()
                server.restart()
            elif what == "task":
                tasks = application.tasks()
                if not tasks:
                    continue
                _kill(chance.choice(tasks))
            else:
                between = application.begun() > application.done()
                application.kill_driver(alone=what == "driver alone")
                what += ", in the middle of a batch" if between else ""
            killed[what] += 1
        reach(application.done() + 2)
    finally:
        application.kill_driver(alone=False)
    last = application.done()
    wanted = Counter(value for batch in range(last + 1) for task in range(TASKS) for value in rows_of(batch, task))
    unfinished = Counter(value for task in range(TASKS) for value in rows_of(last + 1, task))
    for look in (committed_values, values_seen_by_librdkafka):
        seen = look(server.kafka, TARGET)
        assert wanted - seen == Counter(), "rows missing"
        assert seen - wanted - unfinished == Counter(), "rows too many"  # tasks of the last batch may have ended
    with capsys.disabled():
        print(f"\n{dict(killed)}, {last + 1} batches, {wanted.total()} rows, each seen once", flush=True)  # noqa: T201
