"""Fetches of 1 MB from a topic that lies in the page cache."""

from __future__ import annotations

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

BATCH_BYTES = 65_536
FETCH_BYTES = 1 << 20
TOPIC_BYTES = 256 << 20
BATCHES_A_FETCH = FETCH_BYTES // BATCH_BYTES


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    batch = frames.batch_of(BATCH_BYTES)
    count = TOPIC_BYTES // BATCH_BYTES
    rig.create_topic("read")
    rig.produce("read", [frames.produce("read", batch)], connections=2, count=count)
    request = frames.fetch("read", max_bytes=FETCH_BYTES)
    step, end = batch.records * BATCHES_A_FETCH, batch.records * count
    least = FETCH_BYTES - BATCH_BYTES
    measured: Measured = {}
    rig.fetch([request], step=step, end=end, connections=4, seconds=rig.effort.warm_seconds / 4, min_bytes=least)
    for connections in (1, 4):
        load = rig.fetch([request], step=step, end=end, connections=connections, min_bytes=least)
        measured[f"fetch-{connections}"] = load.record_mb_per_s
        measured[f"fetch-{connections}-cpu"] = load.server_cpu_us
    return measured


CASES = (
    Case(
        name="raw-fetch",
        title="Fetch of 1 MB",
        about="From the page cache. What limits it is chiefly the copy through loopback, and the reader that shares "
        "the machine. Durability plays no part.",
        ours=Mode.HEADRACE_FLUSH,
        theirs=Mode.KAFKA,
        also=Mode.HEADRACE,
        measure=measure,
        rows=(
            Row("fetch-1", "1 connection", "MB/s", aim_ratio=1.0),
            Row("fetch-4", "4 connections", "MB/s", aim_ratio=1.0),
            Row("fetch-1-cpu", "server CPU a fetch, 1 connection", "µs", better="less"),
            Row("fetch-4-cpu", "server CPU a fetch, 4 connections", "µs", better="less"),
        ),
    ),
)
