"""A Celery application: tasks that fail and are retried, tasks for later, urgent tasks, and workers that may die.

    celery -A celery_app worker --loglevel INFO
    python celery_app.py

Two settings make every task run to its end whatever happens to a worker: `task_acks_late` acknowledges a task when it is
done, not when it is taken, and `task_reject_on_worker_lost` gives it back when the process that worked on it was killed.
A task may then run twice, so it must not matter if it does.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery, Task
from kombu import Queue

QUEUE = os.environ.get("CELERY_QUEUE", "celery-example")

app = Celery("example", broker=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"), backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_acks_late=True,
    task_default_queue=QUEUE,
    task_queues=[Queue(QUEUE, durable=True, max_priority=9)],
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
)

DIARY = Path(os.environ.get("CELERY_DIARY", "celery-diary.txt"))


def write(line: str) -> None:
    """One line in the diary: appends of this size are never mixed with those of other processes."""
    with DIARY.open("a") as diary:
        diary.write(line + "\n")


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
def note(what: str, seconds: float = 0) -> None:
    time.sleep(seconds)
    write(what)


@app.task(bind=True, max_retries=5)
def flaky(self: Task, what: str, failures: int) -> str:
    """Fails so many times, and is tried again after a moment each time."""
    if self.request.retries < failures:
        write(f"{what} failed")
        raise self.retry(countdown=0.1)
    write(f"{what} done")
    return what


if __name__ == "__main__":
    print("2 + 3 =", add.delay(2, 3).get(timeout=10))
    flaky.delay("flaky", 2)
    note.apply_async(["in two seconds"], countdown=2)
    for number in range(5):
        note.apply_async([f"not urgent {number}", 0.2], priority=0)
    note.apply_async(["urgent"], priority=9)
    print(f"what the worker does next is written to {DIARY}")
