"""Ten million messages waiting in a durable queue: what they cost in memory, at the start, and while the queue is drained."""

from __future__ import annotations

import time
from statistics import mean

from bench.amqp_load import Shape, load, wait_for_messages, warm_up
from bench.cases.memory import Sampler
from bench.model import Case, Measured, Mode, Row
from bench.peers import free_port
from bench.rig import Rig

MESSAGES = 10_000_000
REST_S = 2.0
START_DEADLINE_S = 900.0
FILL = Shape(producers=2, consumers=0, window=5000)
BOTH = Shape()
DRAIN = Shape(producers=0)


def measure(rig: Rig) -> Measured:
    count = rig.effort.count(MESSAGES // 10 if rig.mode.is_rabbitmq else MESSAGES)
    measured: Measured = {"messages": count}
    with rig.serving() as server:
        warm_up(rig, BOTH)
        before = server.rss_bytes()
        filled = load(rig, "deep", FILL, count=count)
        wait_for_messages(rig, "deep", count)
        time.sleep(REST_S)
        measured["fill"] = filled.rate
        measured["memory"] = server.rss_bytes() / 1e6
        measured["growth"] = max(0, server.rss_bytes() - before) / 1e6
    measured["start"] = start(rig, count)
    with rig.serving() as server:
        wait_for_messages(rig, "deep", count)
        warm_up(rig, BOTH)
        sampler = Sampler(rig)
        sampler.start()
        empty, deep = [], []
        for _ in range(2):  # in turn, so that what changes on the machine meanwhile meets both
            empty.append(load(rig, "empty", BOTH).received)
            deep.append(load(rig, "deep", BOTH, leave=True).received)
        measured["empty"], measured["deep"] = mean(empty), mean(deep)
        measured["kept"] = mean(deep) / mean(empty)
        measured["drain"] = load(rig, "deep", DRAIN, leave=True).received
        measured["peak"] = max(sampler.finish())
        server.kill()
    measured["restart"] = start(rig, -1)
    return measured


def start(rig: Rig, count: int) -> float:
    """Seconds from the start of the process until the queue answers with what it must have."""
    with rig.serving(port=free_port(), wait=False) as server:
        wait_for_messages(rig, "deep", count, deadline_s=START_DEADLINE_S)
        return time.perf_counter() - server.spawned_at


CASES = (
    Case(
        name="amqp-backlog",
        title="AMQP: ten million messages waiting",
        about="Persistent messages of 100 B in a durable queue, Go client. RabbitMQ is spared nine tenths of them, which would "
        "take it most of an hour. Memory is the server's resident memory two seconds after the last was confirmed. A start is "
        "from the start of the process until the queue answers with all of its messages. Drained once by a consumer beside a "
        "producer at full speed, as in the row for an empty queue, and once by the consumer alone.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        measure=measure,
        serve=False,
        most_rounds=1,
        rows=(
            Row("messages", "messages waiting", ""),
            Row("fill", "filling: 2 producers with confirms, nobody consumes", "msg/s"),
            Row("memory", "memory with them", "MB", better="less", aim_value=200),
            Row("growth", "of that, since before they came", "MB", better="less"),
            Row("start", "start with them", "s", better="less", aim_value=3.0),
            Row("empty", "an empty queue: delivered beside a producer", "msg/s"),
            Row("deep", "the full queue: delivered beside a producer", "msg/s"),
            Row("kept", "full / empty", "x", aim_value=0.8),
            Row("drain", "the full queue: delivered without a producer", "msg/s"),
            Row("peak", "highest memory while it was drained", "MB", better="less"),
            Row("restart", "start after kill -9 meanwhile", "s", better="less"),
        ),
    ),
)
