"""Streaming through a topic from its first offset: the same records on the local disk and in an archive, which is a folder."""

from __future__ import annotations

import time
from contextlib import closing

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import LoadError, Rig

RECORD_BYTES = 1000
RECORDS = 600_000
SEGMENT_BYTES = 64 << 20
READS = 3
DEADLINE_S = 120.0


def measure(rig: Rig) -> Measured:
    arguments = ["--archive", f"file://{rig.folder}/archive", "--set", "remote.log.manager.task.interval.ms=200"]
    count = rig.effort.count(RECORDS)
    segment_bytes = str(max(1 << 20, min(SEGMENT_BYTES, count * RECORD_BYTES // 8)))
    with rig.serving(arguments=arguments):
        rig.create_topic("local", config={"segment.bytes": segment_bytes})
        archived = {"segment.bytes": segment_bytes, "remote.storage.enable": "true", "local.retention.bytes": "1"}
        rig.create_topic("archived", config=archived)
        for topic in ("local", "archived"):
            rig.rdload("produce", topic, count, RECORD_BYTES)
            batch = frames.batch_of(16_384)  # so that the last of what is read is in a closed segment
            rig.produce(topic, [frames.produce(topic, batch)], count=int(segment_bytes) // 16_384 + 1)
        wait_until_archived(rig, count * RECORD_BYTES)
        speeds: dict[str, list[float]] = {"local": [], "archived": []}
        for _ in range(READS):
            for topic, found in speeds.items():
                said = rig.rdload("consume", topic, count, RECORD_BYTES)
                found.append(said["bytes"] / said["seconds"] / 1e6)
    measured = {topic: sorted(found)[READS // 2] for topic, found in speeds.items()}
    return measured | {"ratio": measured["archived"] / measured["local"]}


def wait_until_archived(rig: Rig, least_bytes: int) -> None:
    from headrace.client.kafka import Cluster, TopicPartition
    from headrace.client.kafka.topics import partition_sizes

    end = time.monotonic() + DEADLINE_S
    place = TopicPartition("archived", 0)
    with closing(Cluster(rig.server.bootstrap)) as cluster:
        while (size := partition_sizes(cluster, [place])[place]).archived < least_bytes or size.local > size.archived // 4:
            if time.monotonic() > end:
                raise LoadError(f"after {DEADLINE_S:.0f} s {size.archived} bytes are archived and {size.local} are local")
            time.sleep(0.1)


CASES = (
    Case(
        name="archive-read",
        title="Reading from the archive",
        about="librdkafka consumes records of 1 KB from the first offset, once from local segments, once from segments that "
        "left for an archive in a folder on the same disk; both are in the page cache.",
        ours=Mode.HEADRACE,
        measure=measure,
        serve=False,
        rows=(
            Row("local", "local segments", "MB/s"),
            Row("archived", "archived segments", "MB/s"),
            Row("ratio", "archived / local", "x", aim_value=0.5),
        ),
    ),
)
