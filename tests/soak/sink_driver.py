"""What Spark does with a sink, and no more, in a process that a test can kill: `python sink_driver.py BOOTSTRAP FOLDER SEED`.

Batch after batch: notes in the checkpoint that the batch begins, runs its tasks in processes of their own, tries those again
that fail, now and then starts a second attempt of a task beside the first, and notes that the batch is done. Started again, it
goes on with the batch that was not done. Tasks outlive a driver that is killed, as they may on another machine. Which rows a
task gets depends on batch and task alone: see `rows_of`.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from headrace.spark.connections import Endpoint, cluster
from headrace.spark.sink.exactly_once import write_exactly_once
from headrace.spark.sink.markers import Marker, leave_marker
from headrace.spark.sink.settings import WriteSettings
from headrace.spark.sink.work import Work

QUERY = "headrace-spark-campaign"
TASKS = 3
TARGET = "target"


def rows_of(batch: int, task: int) -> list[bytes]:
    """Up to some thousand rows; some tasks have none."""
    chance = random.Random(f"{batch} {task}")
    count = 0 if chance.random() < 0.1 else chance.randrange(1, chance.choice([10, 3000]))
    return [b"%d-%d-%d" % (batch, task, number) for number in range(count)]


def _batches(values: list[bytes]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(values), 500):
        some = pa.array(values[start : start + 500], pa.binary())
        yield pa.RecordBatch.from_arrays([some, some], names=["key", "value"])


class Driver:
    def __init__(self, bootstrap: str, folder: str, seed: str) -> None:
        self._settings = WriteSettings(Endpoint(bootstrap, timeout_s=60), TARGET)
        self._folder = Path(folder)
        self._chance = random.Random(seed)

    def run(self) -> None:
        batch = max((int(path.name) for path in (self._folder / "commits").iterdir()), default=-1) + 1
        while True:
            (self._folder / "offsets" / str(batch)).touch()
            self._run_tasks(batch)
            servers = cluster(self._settings.endpoint)
            servers.insist()
            leave_marker(servers, QUERY, Marker(batch, 0, 0), [TARGET])
            (self._folder / "commits" / str(batch)).touch()
            batch += 1

    def _run_tasks(self, batch: int) -> None:
        left = set(range(TASKS))
        running = {self._start(batch, task): task for task in left}
        if self._chance.random() < 0.3:
            task = self._chance.randrange(TASKS)
            running[self._start(batch, task)] = task
        while left:
            pid, status = os.wait()
            task = running.pop(pid, -1)
            if status == 0:
                left.discard(task)
            elif task in left and task not in running.values():
                running[self._start(batch, task)] = task

    def _start(self, batch: int, task: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            write_exactly_once(_batches(rows_of(batch, task)), self._settings, Work(QUERY, batch, task, True))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    Driver(*sys.argv[1:]).run()
