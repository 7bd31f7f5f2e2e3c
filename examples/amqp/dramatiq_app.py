"""A Dramatiq application: actors, retries with back-off, delays, priorities.

dramatiq dramatiq_app
python dramatiq_app.py
"""

from __future__ import annotations

import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

QUEUE = os.environ.get("DRAMATIQ_QUEUE", "dramatiq-example")

broker = RabbitmqBroker(
    url=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/"), confirm_delivery=True, max_priority=9
)
dramatiq.set_broker(broker)

DIARY = Path(os.environ.get("DRAMATIQ_DIARY", "dramatiq-diary.txt"))


def write(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(line + "\n")


@dramatiq.actor(queue_name=QUEUE)
def note(what: str) -> None:
    write(what)


@dramatiq.actor(queue_name=QUEUE, max_retries=5, min_backoff=100, max_backoff=500)
def flaky(what: str, failures: int) -> None:
    """Fails so many times before it succeeds."""
    seen = DIARY.read_text().splitlines() if DIARY.exists() else []
    if seen.count(f"{what} failed") < failures:
        write(f"{what} failed")
        raise RuntimeError("not yet")
    write(f"{what} done")


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def hopeless() -> None:
    """Never succeeds: its message ends in the queue of dead letters."""
    raise RuntimeError("never")


if __name__ == "__main__":
    note.send("at once")
    note.send_with_options(args=("in two seconds",), delay=2000)
    flaky.send("flaky", 2)
    hopeless.send()
    print(f"what the workers do is written to {DIARY}")
