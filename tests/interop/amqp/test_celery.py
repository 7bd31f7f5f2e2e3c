"""Celery: the application in examples/amqp with its own workers, some of which are killed; every task completes."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from headrace.testing import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


class Application:
    """One queue, one diary, workers and clients of them."""

    def __init__(self, run, folder, queue):
        self._run = run
        self._queue = queue
        self._environment = {"CELERY_QUEUE": queue, "CELERY_DIARY": str(folder / "diary.txt")}
        self._diary = folder / "diary.txt"
        self._workers = 0

    @property
    def diary(self) -> list[str]:
        return self._diary.read_text().splitlines() if self._diary.exists() else []

    def worker(self, concurrency=2, *options):
        self._workers += 1
        name = f"{self._queue}-{self._workers}@%h"
        return self._run(
            *("-m", "celery", "-A", "celery_app", "worker", "--loglevel", "INFO", "--concurrency", str(concurrency)),
            *("--hostname", name, *options),
            **self._environment,
        )

    def client(self, code: str):
        return self._run("-c", f"from celery_app import *\n{code}", **self._environment)

    def wait_for(self, lines: set[str], timeout_s: float = 60) -> None:
        wait_until(lambda: lines <= set(self.diary), timeout_s=timeout_s, what="the diary")


@pytest.fixture
def application(run, tmp_path, unique, made):
    queue = unique("celery")
    made.queues.append(queue)
    return Application(run, tmp_path, queue)


def test_tasks_give_results_are_retried_and_wait_for_their_time(application):
    worker = application.worker()
    worker.wait_for("ready.")
    done = application.client(
        """
from celery import group
assert add.delay(2, 3).get(timeout=30) == 5
assert group(add.s(number, number) for number in range(20)).apply_async().get(timeout=30) == list(range(0, 40, 2))
assert flaky.delay("flaky", 3).get(timeout=30) == "flaky"
later = note.apply_async(["later"], countdown=1.5)
note.delay("sooner").get(timeout=30)
later.get(timeout=30)
print("all results")
"""
    ).finish()
    assert done == ["all results"]
    assert application.diary == ["flaky failed"] * 3 + ["flaky done", "sooner", "later"]
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(30) == 0, worker.text


def test_urgent_tasks_come_first(application):
    application.client(
        """
for number in range(6):
    note.apply_async([f"{number % 3}"], priority=number % 3)
note.apply_async(["9"], priority=9)
"""
    ).finish()
    application.worker(1)
    wait_until(lambda: len(application.diary) == 7, timeout_s=30, what="seven tasks")
    assert application.diary == ["9", "2", "2", "1", "1", "0", "0"]


def test_every_task_completes_though_workers_are_killed(application):
    """Late acknowledgement: what a killed worker had taken goes to another one, tasks that wait for their time too."""
    workers = [application.worker(), application.worker()]
    for worker in workers:
        worker.wait_for("ready.")
    application.client(
        """
for number in range(80):
    note.delay(f"note {number}", 0.05)
for number in range(8):
    flaky.delay(f"flaky {number}", 2)
    note.apply_async([f"later {number}"], countdown=2)
"""
    ).finish()
    wait_until(lambda: len(application.diary) > 5, timeout_s=30, what="some tasks")
    os.kill(child_of(workers[0].process.pid), signal.SIGKILL)  # one process of the pool
    wait_until(lambda: len(application.diary) > 20, timeout_s=30, what="more tasks")
    workers[1].kill()  # a worker with its pool
    workers.append(application.worker())
    wanted = {f"note {n}" for n in range(80)} | {f"{kind}" for n in range(8) for kind in (f"flaky {n} done", f"later {n}")}
    application.wait_for(wanted)


def child_of(pid: int) -> int:
    return int(subprocess.run(["pgrep", "-P", str(pid)], check=True, capture_output=True, text=True).stdout.split()[0])
