"""RabbitMQ's own PerfTest on both servers."""

from __future__ import annotations

from bench.amqp_load import Shape, warm_up
from bench.cases.amqp_rates import DURABLE, LABELS, TRANSIENT
from bench.model import Case, Measured, Mode, Row
from bench.perf_test import VERSION, perf_test
from bench.rig import Rig

SHAPES: dict[str, Shape] = {**DURABLE, "transient": TRANSIENT["100-1"]}
NAMES = {**LABELS, "transient": "100 B, transient, automatic acknowledgement, 1 producer, 1 consumer"}


def measure(rig: Rig) -> Measured:
    warm_up(rig, DURABLE["100-1"], DURABLE["100-4"])
    measured: Measured = {}
    for key, shape in SHAPES.items():
        tested = perf_test(rig, f"perf-{key}", shape)
        measured[key] = tested.received
        measured[f"{key}-cpu"] = tested.server_cpu_us
    return measured


CASES = (
    Case(
        name="amqp-perf-test",
        title=f"AMQP: RabbitMQ's PerfTest {VERSION}",
        about="The official load generator (Java): `--flag persistent --confirm 1000 --qos 1000` (with 50 queues 100 and 100, "
        "`--queue-pattern`), `--producers 4 --consumers 4` on one queue, for transient messages `--autoack` without confirms. "
        "The rate is what consumers received a second, without the first seconds. Java's client takes most of two cores, "
        "so the rate of a server that needs little of them is the client's; CPU a message is the server's alone.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        measure=measure,
        rows=(
            *(Row(key, NAMES[key], "msg/s", aim_ratio=3.0) for key in SHAPES),
            *(Row(f"{key}-cpu", f"server CPU a message: {NAMES[key]}", "µs", better="less", aim_ratio=0.2) for key in SHAPES),
        ),
    ),
)
