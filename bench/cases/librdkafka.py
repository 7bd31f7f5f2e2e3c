"""librdkafka with its own defaults (acks=all), through a small C program: no Python client is the bottleneck."""

from __future__ import annotations

from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

SIZES = {100: 5_000_000, 1000: 1_500_000}  # record size: records


def measure(rig: Rig) -> Measured:
    measured: Measured = {}
    rig.warm_up()
    for size, full in SIZES.items():
        topic, count = f"rd-{size}", rig.effort.count(full)
        rig.create_topic(topic)
        for verb in ("produce", "consume"):
            said = rig.rdload(verb, topic, count, size)
            measured[f"{verb}-{size}"] = said["bytes"] / said["seconds"] / 1e6
    return measured


CASES = (
    Case(
        name="librdkafka",
        title="librdkafka",
        about="The client's own defaults: acks=all, one partition, no compression. Headrace with `--durability flush` "
        "against Kafka as shipped: neither syncs before it acknowledges; by default Headrace does.",
        ours=Mode.HEADRACE_FLUSH,
        theirs=Mode.KAFKA,
        also=Mode.HEADRACE,
        measure=measure,
        rows=(
            Row("produce-100", "produce 100 B", "MB/s", aim_ratio=1.0),
            Row("produce-1000", "produce 1 KB", "MB/s", aim_ratio=1.0),
            Row("consume-100", "consume 100 B", "MB/s", aim_ratio=0.9),
            Row("consume-1000", "consume 1 KB", "MB/s", aim_ratio=0.9),
        ),
    ),
)
