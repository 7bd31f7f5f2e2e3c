"""What a produce and a fetch cost as the partitions they go round grow from 1 to 2,000."""

from __future__ import annotations

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

COUNTS = (1, 10, 100, 500, 2000)
SINGLE = 6000  # requests of one connection: each partition has several of them


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    batch = frames.batch(1)
    measured: Measured = {}
    for count in COUNTS:
        topic = f"with-{count}"
        rig.create_topic(topic, partitions=count)
        writes = [frames.produce(topic, batch, partitions=[index]) for index in range(count)]
        reads = [frames.fetch(topic, partition=index, max_bytes=4096) for index in range(count)]
        rig.produce(topic, writes, connections=16, count=max(2 * count, 1000))  # segments are opened here, once
        measured[f"produce-{count}"] = rig.produce(topic, writes, connections=16).rate
        measured[f"fetch-{count}"] = rig.fetch(reads, step=0, end=1, connections=16).rate
        measured[f"produce-p50-{count}"] = rig.produce(topic, writes, count=SINGLE).p50_us
        measured[f"fetch-p50-{count}"] = rig.fetch(reads, step=0, end=1, seconds=rig.effort.seconds / 2).p50_us
    measured["rss"] = rig.server.rss_bytes() / 1e6
    measured["files"] = rig.server.open_files()
    for verb in ("produce", "fetch"):
        measured[f"{verb}-flat"] = measured[f"{verb}-{COUNTS[-1]}"] / measured[f"{verb}-{COUNTS[0]}"]
        measured[f"{verb}-p50-flat"] = measured[f"{verb}-p50-{COUNTS[-1]}"] / measured[f"{verb}-p50-{COUNTS[0]}"]
    return measured


CASES = (
    Case(
        name="partitions",
        title="As partitions grow",
        about="Each request of one record (acks=1), or each fetch of 4 KB, goes to the next partition: what one takes on one "
        "connection (p50), and how many there are on 16 that keep the server busy. Headrace by default and Kafka as shipped.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=(
            *(Row(f"produce-p50-{count}", f"one produce, {count:,} partitions", "µs", better="less") for count in COUNTS),
            Row("produce-p50-flat", "2,000 partitions / 1, one produce", "x", better="less", aim_value=1.25),
            *(Row(f"fetch-p50-{count}", f"one fetch, {count:,} partitions", "µs", better="less") for count in COUNTS),
            Row("fetch-p50-flat", "2,000 partitions / 1, one fetch", "x", better="less", aim_value=1.25),
            *(Row(f"produce-{count}", f"produce over {count:,}, 16 connections", "req/s") for count in COUNTS),
            Row("produce-flat", "2,000 partitions / 1, rate of produce", "x", aim_value=0.8),
            *(Row(f"fetch-{count}", f"fetch over {count:,}, 16 connections", "req/s") for count in COUNTS),
            Row("fetch-flat", "2,000 partitions / 1, rate of fetch", "x", aim_value=0.8),
            Row("rss", f"memory with {sum(COUNTS) + 1:,} partitions", "MB", better="less"),
            Row("files", f"open files with {sum(COUNTS) + 1:,} partitions", "", better="less"),
        ),
    ),
)
