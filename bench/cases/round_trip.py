"""One record at a time, from the call that sends it until a consumer holds it, through librdkafka."""

from __future__ import annotations

from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

ROWS = (
    Row("p50", "p50", "ms", better="less", aim_ratio=0.5),
    Row("p99", "p99", "ms", better="less", aim_ratio=0.5),
    Row("cpu", "server CPU a record", "µs", better="less", aim_ratio=0.5),
)
HOW = "acks=all, `linger.ms=0`, 100 B, one record under way at a time."


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    rig.create_topic("round-trip")
    records = rig.effort.count(10_000)
    busy_s = rig.server.cpu_seconds()
    said = rig.rdload("roundtrip", "round-trip", records, 100)
    busy_s = rig.server.cpu_seconds() - busy_s
    return {"p50": said["p50_ms"], "p99": said["p99_ms"], "cpu": busy_s * 1e6 / records}


CASES = (
    Case(
        name="round-trip",
        title="Round trip of one record, not synced",
        about=f"{HOW} Headrace with `--durability flush` against Kafka as shipped: neither syncs before it acknowledges.",
        ours=Mode.HEADRACE_FLUSH,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=ROWS,
    ),
    Case(
        name="round-trip-synced",
        title="Round trip of one record, synced",
        about=f"{HOW} Headrace by default against Kafka with `flush.messages=1`: both sync before they acknowledge.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA_SYNCED,
        measure=measure,
        rows=ROWS,
    ),
)
