"""The PySpark source against Spark's own Kafka connector, both reading the same topic from Headrace.

Every load runs in a process and a JVM of its own (`bench.spark_load`): some runs to let the JVM compile its hot paths, then
those that count. A rate is rows by the time of the micro-batch's job; CPU is that of the JVM and its Python workers together.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig, run
from headrace.record.batch import encode_batch
from headrace.record.event import Event

ROWS = 5_000_000
PARTITIONS = 4
VALUE_BYTES = 100
BATCH_RECORDS = 500
WINDOWS = 20  # of a second each
WARM_RUNS, RUNS = 4, 5
TICKS = 60  # small micro-batches that count
MILLION = 1_000_000
SOURCES = {"ours": "headrace", "default": "kafka", "tuned": "kafka-tuned"}


def fill(rig: Rig, topic: str, rows: int, partitions: int) -> None:
    """Uncompressed batches of 500 records with keys of 10 and values of 100 bytes, in event times of 20 seconds."""
    rig.create_topic(topic, partitions)
    chance, now_ms = random.Random(1), int(time.time() * 1000)
    requests = []
    for second in range(WINDOWS):
        events = [Event(b"user-%05d" % chance.randrange(100_000), chance.randbytes(VALUE_BYTES)) for _ in range(BATCH_RECORDS)]
        data = bytes(encode_batch(events, now_ms=now_ms - second * 1000))
        requests.append(frames.produce(topic, frames.Batch(data, BATCH_RECORDS), partitions=range(partitions)))
    rig.produce(topic, requests, window=2, count=max(1, rows // (BATCH_RECORDS * partitions)))


def load(rig: Rig, kind: str, source: str, topic: str, *arguments: object) -> dict[str, Any]:
    where = ["--source", source, "--bootstrap", rig.server.bootstrap, "--topic", topic]
    return run([sys.executable, "-m", "bench.spark_load", kind, *where, *arguments], deadline_s=1800)


def measure_rates(rig: Rig) -> Measured:
    fill(rig, "rows", rig.effort.count(ROWS), PARTITIONS)
    measured: Measured = {}
    for sink in ("noop", "count"):
        for name, source in SOURCES.items():
            said = load(rig, "rows", source, "rows", "--sink", sink, "--warm", WARM_RUNS, "--runs", RUNS)
            measured[f"{sink}_{name}"] = said["rate"]
            measured[f"{sink}_{name}_core"] = said["rows"] / said["cpu_seconds"]
            if name == "ours" and sink == "noop":
                measured["worker_mb"] = said["worker_peak_bytes"] / 1e6
                measured["spark_ns"] = said["cpu_seconds"] * 1e9 / said["rows"]
        for name in ("default", "tuned"):
            measured[f"{sink}_to_{name}"] = measured[f"{sink}_ours"] / measured[f"{sink}_{name}"]
    cost = load(rig, "cost", "headrace", "rows")
    measured["decode_ns"] = cost["decode_ns"]
    measured["fetch_ns"] = cost["fetch_and_decode_ns"] - cost["decode_ns"]
    measured["hand_over_ns"] = measured.pop("spark_ns") - cost["fetch_and_decode_ns"]
    return measured


def measure_micro_batch(rig: Rig) -> Measured:
    measured: Measured = {}
    for name in ("ours", "default"):
        topic = f"ticks-{name}"
        rig.create_topic(topic, PARTITIONS)
        said = load(rig, "latency", SOURCES[name], topic, "--warm", 20, "--runs", TICKS)
        measured[name] = said["median_ms"]
        for phase in ("latestOffset", "queryPlanning", "addBatch"):
            measured[f"{name}_{phase}"] = said["phases"].get(phase, 0)
    measured["ratio"] = measured["ours"] / measured["default"]
    return measured


def measure_growth(rig: Rig) -> Measured:
    measured: Measured = {}
    rows = rig.effort.count(2 * MILLION)
    for partitions in (1, 2, 4, 8):
        fill(rig, f"p{partitions}", rows, partitions)
        measured[f"p{partitions}"] = load(rig, "rows", "headrace", f"p{partitions}", "--warm", 4, "--runs", 3)["rate"]
    seconds = {}
    for millions in (1, 10):
        topic = f"m{millions}"
        fill(rig, topic, rig.effort.count(millions * MILLION), PARTITIONS)
        said = load(rig, "rows", "headrace", topic, "--warm", 3 if millions == 10 else 6, "--runs", 3)
        seconds[millions] = said["seconds"]
        measured[f"{topic}_s"] = said["seconds"]
        measured[f"{topic}_mb"] = said["worker_peak_bytes"] / 1e6
    measured["m100_s"] = seconds[10] + (seconds[10] - seconds[1]) * 10
    return measured


def _rates(sink: str, words: str) -> tuple[Row, ...]:
    return (
        Row(f"{sink}_ours", f"{words}: our source", "rows/s"),
        Row(f"{sink}_default", f"{words}: Spark's connector", "rows/s"),
        Row(f"{sink}_tuned", f"{words}: Spark's connector, tuned", "rows/s"),
        Row(f"{sink}_to_default", f"{words}: ours / connector", "x", aim_value=1.0),
        Row(f"{sink}_to_tuned", f"{words}: ours / connector, tuned", "x", aim_value=0.8),
        Row(f"{sink}_ours_core", f"{words}: our source, a core", "rows/s"),
        Row(f"{sink}_default_core", f"{words}: Spark's connector, a core", "rows/s"),
        Row(f"{sink}_tuned_core", f"{words}: Spark's connector, tuned, a core", "rows/s"),
    )


CASES = (
    Case(
        name="spark-source",
        title="The PySpark source",
        about="PySpark 4.3 reads 5 million rows of 100 B in 4 partitions of a topic of Headrace with Trigger.AvailableNow, "
        "with our source and with Spark's own Kafka connector (4.2, the nearest there is), as it comes and tuned "
        "(max.poll.records=50000, fetches of 8 MB). Rows a core are rows by the CPU time of the JVM and the Python workers. "
        "The CPU time of a row in our source is that of its fetch, its decoding into Arrow columns, and all the rest: the "
        "hand-over to the JVM and what Spark does with a row.",
        ours=Mode.HEADRACE,
        measure=measure_rates,
        most_rounds=1,
        rows=(
            *_rates("noop", "into nothing"),
            *_rates("count", "windowed count"),
            Row("fetch_ns", "CPU a row: fetch", "ns", better="less"),
            Row("decode_ns", "CPU a row: decoding", "ns", better="less"),
            Row("hand_over_ns", "CPU a row: hand-over and Spark", "ns", better="less"),
            Row("worker_mb", "a Python worker's most memory", "MB", better="less"),
        ),
    ),
    Case(
        name="spark-micro-batch",
        title="A small micro-batch in PySpark",
        about="100 records are sent, and a streaming query on 4 partitions takes them in one micro-batch; its duration as "
        "Spark tells it, the median of 60. The phases are Spark's.",
        ours=Mode.HEADRACE,
        measure=measure_micro_batch,
        most_rounds=1,
        rows=(
            Row("ours", "our source", "ms", better="less"),
            Row("default", "Spark's connector", "ms", better="less"),
            Row("ratio", "ours / connector", "x", better="less", aim_value=2.0),
            Row("ours_latestOffset", "our source: finding the end", "ms", better="less"),
            Row("ours_queryPlanning", "our source: planning", "ms", better="less"),
            Row("ours_addBatch", "our source: the job", "ms", better="less"),
            Row("default_latestOffset", "Spark's connector: finding the end", "ms", better="less"),
            Row("default_queryPlanning", "Spark's connector: planning", "ms", better="less"),
            Row("default_addBatch", "Spark's connector: the job", "ms", better="less"),
        ),
    ),
    Case(
        name="spark-source-growth",
        title="The PySpark source: more partitions, more rows",
        about="Our source into nothing, 2 million rows in 1 to 8 partitions, then 1 and 10 million rows in 4 partitions. "
        "The time of 100 million is extrapolated from those two.",
        ours=Mode.HEADRACE,
        measure=measure_growth,
        most_rounds=1,
        rows=(
            *(Row(f"p{count}", f"{count} partition{'s' if count > 1 else ''}", "rows/s") for count in (1, 2, 4, 8)),
            Row("m1_s", "1 million rows", "s", better="less"),
            Row("m10_s", "10 million rows", "s", better="less"),
            Row("m100_s", "100 million rows, extrapolated", "s", better="less"),
            Row("m1_mb", "a worker's most memory, 1 million rows", "MB", better="less"),
            Row("m10_mb", "a worker's most memory, 10 million rows", "MB", better="less"),
        ),
    ),
)
