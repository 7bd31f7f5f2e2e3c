"""Loads for the Spark cases, each in a process and a JVM of its own; the last line is one JSON object.

    python -m bench.spark_load rows --source headrace --bootstrap 127.0.0.1:9092 --topic rows --runs 3
    python -m bench.spark_load latency --source kafka --bootstrap 127.0.0.1:9092 --topic ticks --runs 30
    python -m bench.spark_load cost --source headrace --bootstrap 127.0.0.1:9092 --topic rows

`rows` reads everything in a topic, `latency` sends a few records and waits for their micro-batch, `cost` does without Spark
what our source does in a Python worker.

Sources are ours (`headrace`), Spark's own connector as it comes (`kafka`) and with larger fetches and polls (`kafka-tuned`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.peers import HERE, fetched_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

CONNECTOR_VERSION = "4.2.0"
TUNED = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
SOURCES = ("headrace", "kafka", "kafka-tuned")


def connector_jars() -> list[Path]:
    if named := os.environ.get("SPARK_KAFKA_LIBS"):
        libs = Path(named)
    else:
        libs = fetched_jars(HERE / "spark-kafka-pom.xml", f"spark-kafka-{CONNECTOR_VERSION}", "SPARK_KAFKA_LIBS")
    return sorted(libs.glob("*.jar"))


def make_session(cores: int, settings: dict[str, str]) -> SparkSession:
    from headrace.spark.session import session

    jars = ",".join(str(jar) for jar in connector_jars())
    given = {"spark.jars": jars, "spark.driver.memory": "2g", "spark.log.level": "ERROR", **settings}
    return session("bench", f"local[{cores}]", given)


def descendants() -> list[Path]:
    """This process and all below it, in /proc: the JVM, and the Python workers below that."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it may be gone by now
                parent = (entry / "stat").read_text().rsplit(") ", 1)[1].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found, left = [], [os.getpid()]
    while left:
        process = left.pop()
        found.append(Path("/proc", str(process)))
        left += children.get(process, [])
    return found


def cpu_seconds() -> float:
    """Of this process and all below it, those that ended included."""
    ticks = 0
    for process in descendants():
        with contextlib.suppress(OSError):
            ticks += sum(map(int, (process / "stat").read_text().rsplit(") ", 1)[1].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def worker_peak_bytes() -> int:
    """The most memory that any Python worker has had so far."""
    peak = 0
    for process in descendants():
        with contextlib.suppress(OSError):
            if (
                b"pyspark" in (process / "cmdline").read_bytes()
                and b"python" in (process / "cmdline").read_bytes().split(b"\0")[0]
            ):
                lines = (process / "status").read_text().splitlines()
                peak = max(peak, *(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")))
    return peak


def stream(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    kind = "headrace" if given.source == "headrace" else "kafka"
    options = {"kafka.bootstrap.servers": given.bootstrap, "subscribe": given.topic, "startingOffsets": "earliest"}
    return spark.readStream.format(kind).options(**options, **(TUNED if given.source == "kafka-tuned" else {})).load()


def rows(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """Everything that is in a topic, into a sink that drops it or through a windowed count."""
    took: list[float] = []
    cpu: list[float] = []
    seen = peak = 0
    for turn in range(given.warm + given.runs):
        frame = stream(spark, given)
        writer = frame.writeStream.format("noop")
        if given.sink == "count":
            from pyspark.sql import functions as F

            counted = frame.groupBy(F.window("timestamp", "1 second")).agg(F.count("*").alias("n"))
            writer = counted.writeStream.format("noop").outputMode("complete")
        with tempfile.TemporaryDirectory() as checkpoint:
            cpu_before = cpu_seconds()
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            progress = [one for one in query.recentProgress if one.numInputRows]
            used = cpu_seconds() - cpu_before
            peak = max(peak, worker_peak_bytes())
        batch_ms = sum(one.durationMs["addBatch"] for one in progress)
        seen = sum(one.numInputRows for one in progress)
        total_ms = sum(one.batchDuration for one in progress)
        print(f"{turn}: {seen} rows, addBatch {batch_ms} ms, in all {total_ms} ms, {used:.2f} s CPU", file=sys.stderr)
        if turn >= given.warm:
            took.append(batch_ms / 1000)
            cpu.append(used)
    seconds = median(took)
    return {"rows": seen, "seconds": seconds, "rate": seen / seconds, "cpu_seconds": median(cpu), "worker_peak_bytes": peak}


def latency(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    """How long one small micro-batch takes, from the trigger to the commit."""
    from headrace.client.kafka import Cluster, Producer
    from headrace.record.event import Event

    producer = Producer(Cluster(given.bootstrap))
    frame = stream(spark, given)
    batches: dict[int, StreamingQueryProgress] = {}
    wanted = 0
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            for _ in range(given.warm + given.runs):
                for number in range(given.records):
                    producer.send(given.topic, Event(b"%d" % number, b"x" * 100))
                producer.flush()
                wanted += given.records
                end = time.monotonic() + 120
                while sum(one.numInputRows for one in batches.values()) < wanted:
                    if time.monotonic() > end or query.exception() is not None:
                        raise SystemExit(f"the query did not get on: {query.exception() or query.status}")
                    time.sleep(0.005)
                    progress = query.lastProgress
                    if progress is not None and progress.numInputRows:
                        batches[progress.batchId] = progress
        finally:
            query.stop()
    counted = list(batches.values())[given.warm :]
    phases = {name for one in counted for name in one.durationMs}
    return {
        "median_ms": median(one.batchDuration for one in counted),
        "phases": {name: median(one.durationMs.get(name, 0) for one in counted) for name in sorted(phases)},
    }


def cost(given: argparse.Namespace) -> dict[str, Any]:
    """CPU time of fetching and decoding for each row, in microseconds: all of it, and the decoding alone."""
    from headrace.client.kafka import Cluster, TopicPartition, end_offsets
    from headrace.client.kafka.connection import Landing
    from headrace.client.kafka.fetch import FetchWish, receive_fetch, send_fetch
    from headrace.client.kafka.offsets import Isolation
    from headrace.spark import fetching
    from headrace.spark.columns.arrow import BatchMaker
    from headrace.spark.columns.twin import Decoder
    from headrace.spark.pieces import Piece, ReadSettings

    cluster = Cluster(given.bootstrap)
    topic = cluster.topic(given.topic)
    ends = end_offsets(cluster, [TopicPartition(given.topic, one.index) for one in topic.partitions])
    whole: list[float] = []
    for _ in range(given.warm + given.runs):
        count, began = 0, time.process_time()
        for partition, end in ends.items():
            for batch in fetching.read_piece(cluster, Piece(*partition, 0, end), ReadSettings()):
                count += batch.num_rows
        whole.append((time.process_time() - began) * 1e9 / max(1, count))
    connection, landing = cluster.open(topic.partitions[0].leader), Landing(fetching.FETCH_BYTES)
    wish = FetchWish(topic, 0, 0, fetching.FETCH_BYTES, 500, Isolation.READ_COMMITTED)
    answer = receive_fetch(connection, send_fetch(connection, wish, cluster.deadline()), cluster.deadline(), landing)
    decoding: list[float] = []
    for _ in range(20):
        decoder = Decoder(0, ends[TopicPartition(given.topic, 0)], False, 1 << 30, 1 << 30)
        began = time.process_time()
        decoder.feed(answer.records)
        decoder.fill()
        count = decoder.rows
        BatchMaker(given.topic, 0).make(decoder.take())
        decoding.append((time.process_time() - began) * 1e9 / max(1, count))
    return {"fetch_and_decode_ns": median(whole[given.warm :]), "decode_ns": median(decoding)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_load", description=__doc__)
    parser.add_argument("load", choices=("rows", "latency", "cost"))
    parser.add_argument("--source", choices=SOURCES, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--sink", choices=("noop", "count"), default="noop")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1, help="runs before those that count")
    parser.add_argument("--records", type=int, default=100, help="in one micro-batch of `latency`")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    given = parser.parse_args()
    if given.load == "cost":
        print(json.dumps(cost(given)))
        return
    spark = make_session(given.cores, dict(one.split("=", 1) for one in given.set))
    try:
        measured = {"rows": rows, "latency": latency}[given.load](spark, given)
    finally:
        spark.stop()
        _await_java()
    print(json.dumps(measured))


def _await_java() -> None:
    """What Java used counts as ours only when it has ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
