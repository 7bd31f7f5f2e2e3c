"""acks=all with the disk synced before every acknowledgement, to one partition and to 500 at once."""

from __future__ import annotations

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

PARTITIONS = 500
ALL = -1


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    small, kilobyte, large = frames.batch(1), frames.batch(1, 1000), frames.batch_of(65_536)
    rig.create_topic("one")
    rig.create_topic("many", partitions=PARTITIONS)
    one = [frames.produce("one", small, acks=ALL)]
    rig.produce("one", one, connections=16, seconds=rig.effort.warm_seconds / 4)
    measured: Measured = {}
    for connections in (1, 16):
        load = rig.produce("one", one, connections=connections)
        measured[f"small-{connections}"] = load.rate
        measured[f"small-{connections}-p99"] = load.p99_us / 1e3
    for connections in (1, 16):
        load = rig.produce("one", [frames.produce("one", large, acks=ALL)], connections=connections)
        measured[f"64k-{connections}"] = load.rate * len(large.data) / 1e6

    # Window 32 on 16 connections: enough under way at once for all of the partitions to be dirty together.
    to_one = [frames.produce("one", kilobyte, acks=ALL)]
    to_many = [frames.produce("many", kilobyte, partitions=[index], acks=ALL) for index in range(PARTITIONS)]
    together = [frames.produce("many", kilobyte, partitions=range(PARTITIONS), acks=ALL)]
    rig.produce("many", to_many, connections=16, window=32, seconds=rig.effort.warm_seconds / 4)
    measured["to-one"] = rig.produce("one", to_one, connections=16, window=32).rate
    measured["to-many"] = rig.produce("many", to_many, connections=16, window=32).rate
    measured["spread"] = measured["to-many"] / measured["to-one"]
    measured["together"] = rig.produce("many", together).rate * PARTITIONS
    return measured


CASES = (
    Case(
        name="synced",
        title="Produce requests, acks=all, synced",
        about="Headrace as it is by default (`fsync`, by group commit) against Kafka with `flush.messages=1`: both "
        "have the data on the disk before they acknowledge.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA_SYNCED,
        measure=measure,
        rows=(
            Row("small-1", "1 record a request, 1 connection", "req/s", aim_ratio=2.0),
            Row("small-16", "1 record a request, 16 connections", "req/s", aim_ratio=2.0),
            Row("64k-1", "64 KB batches, 1 connection", "MB/s", aim_ratio=2.0),
            Row("64k-16", "64 KB batches, 16 connections", "MB/s", aim_ratio=2.0),
            Row("small-16-p99", "p99 latency, 1 record, 16 connections", "ms", better="less"),
            Row("to-one", "1 KB a request, 512 in flight, 1 partition", "req/s", aim_ratio=2.0),
            Row("to-many", "the same, spread over 500 partitions", "req/s", aim_ratio=2.0),
            Row("spread", "rate on 500 partitions / rate on 1", "x", aim_value=0.5),
            Row("together", "1 KB to each of 500 partitions in one request", "records/s", aim_ratio=2.0),
        ),
    ),
)
