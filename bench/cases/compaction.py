"""Compaction: a partition of which a tenth of the records are the newest of their key, cleaned alone and beside producers."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from bench import frames
from bench.cases.memory import Sampler
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig
from headrace.kafka.codec.headers import decode_response_header
from headrace.kafka.codec.schema import decode
from headrace.kafka.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse
from headrace.record.batch import encode_batch
from headrace.record.event import Event

TOTAL_BYTES = 1_000_000_000
VALUE_BYTES = 100
BATCH_RECORDS = 500
RECORD_BYTES = VALUE_BYTES + 20  # about what one takes in a batch
ROUNDS = 5  # the same batches that many times; their keys are drawn so that a tenth of all records is the newest of its key
POOL = 0.126  # of all records: drawing from so many keys meets a tenth of them
QUIET_S = 3.0  # nothing has changed for so long: it is over
DEADLINE_S = 600.0
VERSION = 4
ALL = -1


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    total = rig.effort.count(TOTAL_BYTES // RECORD_BYTES)
    records = keyed_batches(total)
    _set_backoff(rig)
    measured: Measured = {}
    rig.create_topic("beside")
    one = [frames.produce("beside", frames.batch(1), acks=ALL)]

    size = fill(rig, "alone", records, total)
    sampler = Sampler(rig)
    before = rig.server.rss_bytes() / 1e6
    cpu = rig.server.cpu_seconds()
    sampler.start()
    seconds = compact(rig, "alone")
    measured["memory"] = max(sampler.finish(), default=before) - before
    measured["cpu"] = (rig.server.cpu_seconds() - cpu) / seconds
    measured["speed"] = size / seconds / 1e6

    rig.produce("beside", one, connections=4, seconds=rig.effort.warm_seconds / 4)
    measured["p99-before"] = rig.produce("beside", one, connections=4).p99_us / 1e3
    fill(rig, "loaded", records, total)
    cleaner = threading.Thread(target=compact, args=(rig, "loaded"))
    cleaner.start()
    measured["p99-during"] = rig.produce("beside", one, connections=4, seconds=max(1.0, seconds * 0.9)).p99_us / 1e3
    cleaner.join()
    measured["p99-ratio"] = measured["p99-during"] / measured["p99-before"]
    return measured


def keyed_batches(total: int) -> list[frames.Batch]:
    noise, now_ms = random.Random(1), int(time.time() * 1000)
    pool = int(total * POOL)
    made = []
    for _ in range(total // ROUNDS // BATCH_RECORDS):
        events = [
            Event(b"key-%09d" % noise.randrange(pool), noise.randbytes(VALUE_BYTES), timestamp_ms=now_ms)
            for _ in range(BATCH_RECORDS)
        ]
        made.append(frames.Batch(bytes(encode_batch(events)), BATCH_RECORDS))
    return made


def fill(rig: Rig, topic: str, records: list[frames.Batch], total: int) -> int:
    """Writes the topic, as one that is not compacted yet; returns its size."""
    segment = max(1024 * 1024, total * RECORD_BYTES // 10)
    rig.create_topic(topic, config={"segment.bytes": str(segment), "file.delete.delay.ms": "0"})
    requests = [frames.produce(topic, batch) for batch in records]
    rig.produce(topic, requests, connections=1, window=4, count=len(requests) * ROUNDS)
    return size_of(rig, topic)


def compact(rig: Rig, topic: str) -> float:
    """Makes the topic a compacted one and waits until its size has settled; the seconds that took."""
    began = changed = time.monotonic()
    alter(rig, "TOPIC", topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    first = size = size_of(rig, topic)
    while time.monotonic() - changed < QUIET_S or size == first:
        if time.monotonic() - began > DEADLINE_S:
            raise LoadError(f"{topic} was not compacted after {DEADLINE_S:.0f} s")
        time.sleep(0.02)
        now = size_of(rig, topic)
        if now != size:
            size, changed = now, time.monotonic()
    if size > first // 2:
        raise LoadError(f"{topic} has {size} bytes of {first} after compaction")
    return changed - began


def size_of(rig: Rig, topic: str) -> int:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    answer = frames.exchange(rig.server.host, rig.server.port, frames.framed(request, VERSION), timeout_s=30)
    _, start = decode_response_header(answer, flexible=True)
    said = decode(DescribeLogDirsResponse, VERSION, answer, start)
    return sum(part.partition_size for found in said.results for each in found.topics for part in each.partitions)


def _set_backoff(rig: Rig) -> None:
    admin = rig.admin()
    for broker in admin.list_topics(timeout=10).brokers:
        alter(rig, "BROKER", str(broker), {"log.cleaner.backoff.ms": "100"})


def alter(rig: Rig, kind: str, name: str, values: dict[str, str]) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    operation: Any = AlterConfigOpType.SET
    entries = [ConfigEntry(key, value, incremental_operation=operation) for key, value in values.items()]
    resource = ConfigResource(getattr(ResourceType, kind), name, incremental_configs=entries)
    admin = rig.admin()
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


CASES = (
    Case(
        name="compaction",
        title="Compaction",
        about="1 GB in one partition, records of 100 bytes in batches of 500, a tenth of them the newest of their key. "
        "Speed is the size before by the time from the change of `cleanup.policy` until the size has settled, with "
        "`log.cleaner.backoff.ms=100` on both sides and everything else as shipped: Headrace's cleaner takes half a core. "
        "Memory is how much the process grows meanwhile; the map of keys is never larger than "
        "`log.cleaner.dedupe.buffer.size` (128 MiB on both sides).",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=(
            Row("speed", "cleaning alone", "MB/s", aim_ratio=0.5),
            Row("cpu", "processor meanwhile", "cores", better="less"),
            Row("memory", "growth of the process meanwhile", "MB", better="less", aim_value=200),
            Row("p99-before", "p99 of acks=all produce, 4 connections, before", "ms", better="less"),
            Row("p99-during", "the same during a cleaning", "ms", better="less"),
            Row("p99-ratio", "during / before", "x", better="less", aim_value=2.0),
        ),
    ),
)
