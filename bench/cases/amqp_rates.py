"""Messages all the way through durable and transient queues: published, confirmed, delivered and acknowledged."""

from __future__ import annotations

from bench.amqp_load import Shape, load, warm_up
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

DURABLE = {
    "100-1": Shape(size=100),
    "1000-1": Shape(size=1000),
    "100-4": Shape(size=100, producers=4, consumers=4),
    "1000-4": Shape(size=1000, producers=4, consumers=4),
    "50-queues": Shape(size=100, producers=50, consumers=50, queues=50, window=100),
}
PLAIN = {"100-1-plain": Shape(plain=True), "100-4-plain": Shape(producers=4, consumers=4, plain=True)}
TRANSIENT = {"100-1": Shape(size=100, transient=True), "1000-1": Shape(size=1000, transient=True)}
LABELS = {
    "100-1": "100 B, 1 producer, 1 consumer",
    "1000-1": "1 KB, 1 producer, 1 consumer",
    "100-4": "100 B, 4 producers, 4 consumers",
    "1000-4": "1 KB, 4 producers, 4 consumers",
    "50-queues": "100 B, 50 queues, a producer and a consumer on each",
    "100-1-plain": "100 B, 1 producer, 1 consumer, client as it comes",
    "100-4-plain": "100 B, 4 producers, 4 consumers, client as it comes",
}


def measured_by(rig: Rig, shapes: dict[str, Shape]) -> Measured:
    warm_up(rig, *list(shapes.values())[:3])
    measured: Measured = {}
    for key, shape in shapes.items():
        brought = load(rig, f"rate-{key}", shape)
        measured[key] = brought.rate
        measured[f"{key}-cpu"] = brought.server_cpu_us
    return measured


def durable(rig: Rig) -> Measured:
    return measured_by(rig, DURABLE | PLAIN)


def transient(rig: Rig) -> Measured:
    return measured_by(rig, TRANSIENT)


def rows(shapes: dict[str, Shape], aim: float, cpu_aim: float | None) -> tuple[Row, ...]:
    rates = [Row(key, LABELS[key], "msg/s", aim_ratio=aim) for key in shapes]
    cpu = [Row(f"{key}-cpu", f"server CPU a message: {LABELS[key]}", "µs", better="less", aim_ratio=cpu_aim) for key in shapes]
    return (*rates, *cpu)


DURABLE_ABOUT = (
    "Go client. Durable queues, persistent messages, publisher confirms with at most 1,000 unconfirmed for each producer, an "
    "acknowledgement for each message, prefetch 1,000 (with 50 queues 100 and 100). Everyone has a connection of its own; four "
    "producers and four consumers share one queue. The rate is of messages published, confirmed, delivered and acknowledged, "
    "from the first publish until the queue is empty. RabbitMQ confirms a message of a classic queue when it is synced, in "
    "batches, or when a consumer has acknowledged it before that; of a quorum queue when it is synced. Headrace "
    "confirms what is synced, by group commit. The client writes each publish and each acknowledgement by "
    "itself, which on one machine with the server can cost more than the server does; it is given a connection that gathers "
    "them, and two rows show it as it comes."
)

CASES = (
    Case(
        name="amqp-durable",
        title="AMQP: persistent messages with confirms and acknowledgements",
        about=DURABLE_ABOUT,
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        also=Mode.RABBITMQ_QUORUM,
        measure=durable,
        rows=rows(DURABLE | PLAIN, aim=3.0, cpu_aim=0.2),
    ),
    Case(
        name="amqp-pure",
        title="AMQP: the same without compiled code",
        about="As above, Headrace with `HEADRACE_PURE=1`.",
        protocol="amqp",
        ours=Mode.HEADRACE_PURE,
        theirs=Mode.RABBITMQ,
        measure=durable,
        rows=rows(DURABLE | PLAIN, aim=2.0, cpu_aim=None),
    ),
    Case(
        name="amqp-transient",
        title="AMQP: transient messages without acknowledgements",
        about="Go client. A queue that is not durable, no confirms, consumers with automatic acknowledgement. The rate is of "
        "messages published and delivered, until the queue is empty.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        also=Mode.HEADRACE_PURE,
        measure=transient,
        rows=rows(TRANSIENT, aim=3.0, cpu_aim=0.2),
    ),
)
