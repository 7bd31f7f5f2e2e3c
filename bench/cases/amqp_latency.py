"""How long a persistent message takes to its consumer, and its confirm to the producer, at a steady rate."""

from __future__ import annotations

from bench.amqp_load import Shape, load, warm_up
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

RATES = (500, 5000)  # messages a second
SECONDS_MORE = 2  # times as long as another load: the p99 of 500 a second needs it


def measure(rig: Rig) -> Measured:
    shape = Shape()
    warm_up(rig, shape)
    measured: Measured = {}
    for rate in RATES:
        brought = load(rig, f"latency-{rate}", shape, rate=rate, seconds=SECONDS_MORE * rig.effort.seconds)
        measured[f"{rate}-p50"], measured[f"{rate}-p99"] = brought.delivery_ms
        measured[f"{rate}-confirm-p50"], measured[f"{rate}-confirm-p99"] = brought.confirm_ms
        measured[f"{rate}-cpu"] = brought.server_cpu_us
    return measured


def rows() -> tuple[Row, ...]:
    found = []
    for rate in RATES:
        for kind, what in (("", "to the consumer"), ("-confirm", "to the confirm")):
            for share in ("p50", "p99"):
                label = f"{rate:,} messages/s, {what}, {share}"
                found.append(Row(f"{rate}{kind}-{share}", label, "ms", better="less", aim_ratio=0.6))
        found.append(Row(f"{rate}-cpu", f"{rate:,} messages/s, server CPU a message", "µs", better="less"))
    return tuple(found)


CASES = (
    Case(
        name="amqp-latency",
        title="AMQP: latency of persistent messages",
        about="Go client. 100 B, one producer with confirms, one consumer that acknowledges each message, a durable queue; "
        "messages are sent at even intervals. Times are from just before the publish to the delivery, and to the confirm.",
        protocol="amqp",
        ours=Mode.HEADRACE,
        theirs=Mode.RABBITMQ,
        also=Mode.RABBITMQ_QUORUM,
        measure=measure,
        rows=rows(),
    ),
    Case(
        name="amqp-latency-awake",
        title="AMQP: latency with a server that stays awake",
        about="As above, Headrace with `headrace.amqp.stay.awake.ms=10`: it polls between messages in place of sleeping.",
        protocol="amqp",
        ours=Mode.HEADRACE_AWAKE,
        theirs=Mode.RABBITMQ,
        measure=measure,
        rows=rows(),
    ),
)
