"""Many connections, many queues, many bindings: what they cost in memory, and how fast they come into being."""

from __future__ import annotations

import time
from dataclasses import replace

from bench.amqp_load import Shape, connections, declare, load, wait_for_messages, warm_up
from bench.model import Case, Measured, Mode, Row
from bench.peers import free_port
from bench.rig import Rig

CONNECTIONS = 1000
QUEUES = 10_000
BINDINGS = 100_000
REST_S = 2.0
FEW = Shape(producers=2, consumers=2, queues=10, bindings=10)


def many(rig: Rig) -> Measured:
    measured: Measured = {}
    with rig.serving() as server:
        time.sleep(REST_S)
        measured["rest"] = server.rss_bytes() / 1e6
        with connections(rig, CONNECTIONS) as opened:
            measured["opened"] = opened
            time.sleep(REST_S)
            measured["connections"] = server.rss_bytes() / 1e6
        measured["count"] = rig.effort.count(QUEUES)
        measured["declared"] = declare(rig, "many", rig.effort.count(QUEUES))
        time.sleep(REST_S)
        measured["queues"] = server.rss_bytes() / 1e6
        measured["files"] = server.open_files()
    with rig.serving(port=free_port(), wait=False) as server:
        wait_for_messages(rig, "many-0", 0)
        measured["start"] = time.perf_counter() - server.spawned_at
    return measured


def bindings(rig: Rig) -> Measured:
    warm_up(rig, FEW)
    few = load(rig, "few", FEW)
    many = replace(FEW, bindings=rig.effort.count(BINDINGS))
    made = load(rig, "bound", many, count=many.bindings)  # a message for each of them
    bound = load(rig, "bound", replace(many, bound=True))
    return {
        "few": few.rate,
        "few-cpu": few.server_cpu_us,
        "count": many.bindings,
        "many": bound.rate,
        "many-cpu": bound.server_cpu_us,
        "kept": bound.rate / few.rate,
        "bound": many.bindings / made.bind_seconds,
    }


CASES = (
    Case(
        name="amqp-many",
        title="AMQP: 1,000 connections, 10,000 queues",
        about="Resident memory of the server: two seconds after its start, with 1,000 connections of a channel each, and after "
        "10,000 durable queues were declared from four connections that wait for each answer.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        measure=many,
        serve=False,
        most_rounds=1,
        rows=(
            Row("rest", "memory at rest", "MB", better="less"),
            Row("connections", "memory with 1,000 connections", "MB", better="less"),
            Row("opened", "connections opened", "per s"),
            Row("count", "durable queues", ""),
            Row("queues", "memory with them", "MB", better="less"),
            Row("declared", "declared", "per s"),
            Row("files", "open files with them", "", better="less"),
            Row("start", "start with them", "s", better="less"),
        ),
    ),
    Case(
        name="amqp-bindings",
        title="AMQP: 100,000 bindings of a topic exchange",
        about="Go client, persistent messages of 100 B with confirms, two producers and two consumers on ten queues, each "
        "message with the next of the routing keys, which exactly one binding (`device.N.*`) matches. Bindings are made on "
        "eight connections at once.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        measure=bindings,
        most_rounds=1,
        rows=(
            Row("few", "10 bindings", "msg/s"),
            Row("few-cpu", "10 bindings, server CPU a message", "µs", better="less"),
            Row("count", "many bindings", ""),
            Row("many", "with so many", "msg/s"),
            Row("many-cpu", "with so many, server CPU a message", "µs", better="less"),
            Row("kept", "many / 10", "x"),
            Row("bound", "bindings made", "per s"),
        ),
    ),
)
