"""What a produce and a fetch cost as a topic grows a thousandfold."""

from __future__ import annotations

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FETCH_BYTES = 1 << 16
STEP = 7_919_777  # a prime, so that fetches land all over the topic
WRITES = 3000  # single records: enough for a median, few enough to leave the size of the topic what it is


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    rig.create_topic("grows")
    batch = frames.batch_of(16_384)
    fill, write = frames.produce("grows", batch), frames.produce("grows", frames.batch(1))
    read = frames.fetch("grows", max_bytes=FETCH_BYTES)
    sizes = [size for size in SIZES if size <= max(SIZES[2], SIZES[-1] * rig.effort.scale)]
    measured: Measured = {}
    for size in sizes:
        missing = (size - rig.end_offsets("grows")) // batch.records
        rig.produce("grows", [fill], connections=4, window=4, count=missing)
        end = rig.end_offsets("grows") - 1000  # so that every fetch can be a full one
        reads = rig.fetch([read], step=STEP % end, end=end, seconds=rig.effort.seconds / 2)
        writes = rig.produce("grows", [write], count=WRITES)
        measured[f"fetch-{size}"] = reads.p50_us
        measured[f"produce-{size}"] = writes.p50_us
    for verb in ("fetch", "produce"):
        measured[f"{verb}-flat"] = measured[f"{verb}-{sizes[-1]}"] / measured[f"{verb}-{sizes[0]}"]
    return measured


CASES = (
    Case(
        name="growth",
        title="As a topic grows",
        about="One connection, p50 of a produce of one record (acks=1) and of a fetch of 64 KB from anywhere in the "
        "topic, Headrace by default and Kafka as shipped. Records of 100 B in batches of 16 KB.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=(
            *(Row(f"produce-{size}", f"produce at {size:,} records", "µs", better="less") for size in SIZES),
            Row("produce-flat", "largest / smallest topic, produce", "x", better="less", aim_value=1.25),
            *(Row(f"fetch-{size}", f"fetch at {size:,} records", "µs", better="less") for size in SIZES),
            Row("fetch-flat", "largest / smallest topic, fetch", "x", better="less", aim_value=1.25),
        ),
    ),
)
