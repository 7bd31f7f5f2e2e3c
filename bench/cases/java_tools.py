"""Kafka's own ProducerPerformance and ConsumerPerformance, with the Java client's defaults."""

from __future__ import annotations

import csv
import os
import re
import subprocess

from bench.model import Case, Measured, Mode, Row
from bench.peers import kafka_java
from bench.rig import LoadError, Rig

SIZES = {100: 5_000_000, 1000: 1_500_000}  # record size: records
JVM = ("-Xmx512M", "-server", "-XX:+UseG1GC")  # bin/kafka-producer-perf-test.sh, bin/kafka-consumer-perf-test.sh
MIB = 1 << 20
DEADLINE_S = 600


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    measured: Measured = {}
    for size, full in SIZES.items():
        topic, count = f"java-{size}", rig.effort.count(full)
        rig.create_topic(topic)
        measured[f"produce-{size}"] = produce(rig, topic, count, size)
        measured[f"consume-{size}"] = consume(rig, topic, count)
    return measured


def produce(rig: Rig, topic: str, count: int, size: int) -> float:
    """MB/s of `count` records, after a quarter as many during which the client's own JVM warms up."""
    warm = count // 4
    said = _tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", rig.server.bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(count + warm), "--warmup-records", str(warm), "--record-size", str(size)),
    )
    rig.wait_for_records(topic, count + warm)
    return produced_mb_per_s(said)


def consume(rig: Rig, topic: str, count: int) -> float:
    """MB/s of fetching, the time to join the group left out, as the tool reports it."""
    said = _tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", rig.server.bootstrap, "--topic", topic, "--num-records", str(count)),
        *("--timeout", "60000"),
    )
    return consumed_mb_per_s(said, count)


def produced_mb_per_s(said: str) -> float:
    """From the last summary line: '… records sent, 123.4 records/sec (5.67 MB/sec), …', where MB is 2^20."""
    found = re.findall(r"records sent, [\d.,]+ records/sec \(([\d.,]+) MB/sec\)", said)
    if not found:
        raise LoadError(f"ProducerPerformance said: {said.strip()[-300:]}")
    return float(found[-1].replace(",", "")) * MIB / 1e6


def consumed_mb_per_s(said: str, count: int) -> float:
    lines = [line for line in said.splitlines() if line.count(",") >= 9]
    for row in csv.DictReader(lines, skipinitialspace=True):
        fetched = next(float(value) for name, value in row.items() if name in ("data.consumed.in.nMsg",))
        if fetched < count:
            raise LoadError(f"ConsumerPerformance took {fetched:.0f} of {count} records")
        return float(row["fetch.MB.sec"]) * MIB / 1e6
    raise LoadError(f"ConsumerPerformance said: {said.strip()[-300:]}")


def _tool(main: str, *arguments: str) -> str:
    os.sync()
    command = kafka_java(main, *arguments, jvm=JVM)
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode:
        raise LoadError(f"{main.rsplit('.', 1)[1]}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


CASES = (
    Case(
        name="java",
        title="Kafka's own performance tools",
        about="ProducerPerformance and ConsumerPerformance of Apache Kafka 4.3.1 with the Java client's defaults: "
        "acks=all, idempotent. Headrace with `--durability flush` against Kafka as shipped: neither syncs before it "
        "acknowledges; by default Headrace does.",
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
