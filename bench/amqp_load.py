"""AMQP loads on the server of a rig, by `bench/amqp` (Go, RabbitMQ's own client for it).

Every load checks itself: with confirms nothing counts that was not confirmed, and at the end each message must have been
delivered and acknowledged exactly once. CPU is that of the server process over the whole load, with all of its publishes,
deliveries and acknowledgements, divided by its messages.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import native
from bench.model import Mode
from bench.rig import LoadError, Rig, run

WINDOW = 1000  # unconfirmed publishes of a producer, and unacknowledged deliveries of a consumer
FILL_DEADLINE_S = 3600.0
RATE_REACHED = 0.8  # of a steady rate; with less its latencies say nothing


@dataclass(frozen=True, slots=True)
class Shape:
    """Who sends what to whom. A queue is durable and its messages persistent unless `transient`."""

    size: int = 100
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    window: int = WINDOW
    transient: bool = False  # no confirms, and consumers that acknowledge by receiving
    bindings: int = 0  # of a topic exchange; each message has the routing key of the next one
    bound: bool = False  # they are there already
    plain: bool = False  # the client as it comes: each publish and each acknowledgement is a write of its own

    def arguments(self) -> list[object]:
        words: list[object] = ["-size", self.size, "-queues", self.queues, "-bindings", self.bindings]
        words += ["-producers", self.producers, "-consumers", self.consumers]
        words += [*(["-bound"] if self.bound else []), *(["-plain"] if self.plain else [])]
        if self.transient:
            return [*words, "-transient", "-auto-ack"]
        return [*words, "-confirm", self.window, "-prefetch", self.window]


@dataclass(frozen=True, slots=True)
class AmqpLoad:
    """What a load brought."""

    messages: int
    rate: float  # all the way, a second: published, confirmed, delivered and acknowledged
    sent: float  # a second, while producers were at work
    received: float  # a second, in the same time
    server_cpu_us: float  # for each message
    client_cpu_share: float  # of one core
    delivery_ms: tuple[float, float]  # p50 and p99 from just before the publish to the delivery; zeros without a rate
    confirm_ms: tuple[float, float]  # and to the confirm
    bind_seconds: float


def url(rig: Rig) -> str:
    """The default virtual host: with a slash at the end Java's client would take the one whose name is empty."""
    return f"amqp://guest:guest@{rig.server.host}:{rig.server.amqp_port}"


def load(
    rig: Rig,
    queue: str,
    shape: Shape,
    *,
    seconds: float | None = None,
    rate: float = 0,
    count: int = 0,
    leave: bool = False,
) -> AmqpLoad:
    """Runs a load for a time, or for a count of messages. With `leave`, what is in the queue at the end stays there."""
    command = [native.amqpload(), "load", "-url", url(rig), "-queue", queue, "-type", queue_type(rig), *shape.arguments()]
    command += ["-rate", rate, "-seconds", rig.effort.seconds if seconds is None else seconds]
    command += ["-warm", 0 if count else min(1.0, rig.effort.warm_seconds / 4), "-count", count]
    command += ["-leave"] if leave else []
    os.sync()  # what earlier loads left in the page cache is not this one's business
    cpu_before = rig.server.cpu_seconds()
    said = run(command, deadline_s=FILL_DEADLINE_S)
    cpu = rig.server.cpu_seconds() - cpu_before
    if said["sent_per_s"] < RATE_REACHED * rate:
        raise LoadError(f"only {said['sent_per_s']:.0f} of {rate:.0f} messages a second could be sent")
    messages = int(max(said["published"], said["received"]))
    delivery, confirm = said.get("delivery") or {}, said.get("confirm") or {}
    return AmqpLoad(
        messages=messages,
        rate=said["through_per_s"],
        sent=said["sent_per_s"],
        received=said["received_per_s"],
        server_cpu_us=cpu * 1e6 / max(1, messages),
        client_cpu_share=said["client_cpu_s"] / max(said["seconds"], 1e-9),
        delivery_ms=(delivery.get("p50_us", 0) / 1e3, delivery.get("p99_us", 0) / 1e3),
        confirm_ms=(confirm.get("p50_us", 0) / 1e3, confirm.get("p99_us", 0) / 1e3),
        bind_seconds=said.get("bind_s", 0),
    )


def queue_type(rig: Rig) -> str:
    return "quorum" if rig.mode is Mode.RABBITMQ_QUORUM else "classic"


def warm_up(rig: Rig, *shapes: Shape) -> None:
    """A load of each shape on queues of its own, so that what is measured afterwards meets warm code and a grown heap."""
    for index, shape in enumerate(shapes):
        load(rig, f"warm-{index}", shape, seconds=rig.effort.warm_seconds / len(shapes) / 2)


def wait_for_messages(rig: Rig, queue: str, count: int, *, deadline_s: float = 600) -> None:
    """Until the queue answers with exactly `count` messages (-1: with any), on a connection opened for the question."""
    words = ["-url", url(rig), "-queue", queue, "-expect", count, "-deadline", deadline_s]
    run([native.amqpload(), "inspect", *words], deadline_s=deadline_s + 30)


def declare(rig: Rig, prefix: str, count: int) -> float:
    """Declares durable queues on four connections; how many a second."""
    words = ["-url", url(rig), "-queue", prefix, "-queues", count, "-type", queue_type(rig)]
    return float(run([native.amqpload(), "declare", *words])["per_s"])


@contextmanager
def connections(rig: Rig, count: int) -> Iterator[float]:
    """So many open connections with a channel each; gives how many were opened a second."""
    command = [str(native.amqpload()), "hold", "-url", url(rig), "-connections", str(count)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        line = holder.stdout.readline()
        if not line:
            raise LoadError(holder.stderr.read().strip()[-500:])
        yield float(json.loads(line)["per_s"])
        _, complaint = holder.communicate(timeout=60)
        if holder.returncode:
            raise LoadError(complaint.strip()[-500:])
    finally:
        if holder.poll() is None:
            holder.kill()
        holder.wait()
