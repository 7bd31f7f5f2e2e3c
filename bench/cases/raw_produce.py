"""Produce requests, acks=1, as fast as one or many connections send them, and what each costs the server in CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig


@dataclass(frozen=True, slots=True)
class Shape:
    key: str
    batch_bytes: int  # 0 for a single record of 100 bytes
    connections: int
    window: int
    cpu: bool = False


LARGE_LOAD_BYTES = 768 << 20  # below what Linux keeps in memory before it makes writers wait for the disk

SHAPES = (
    Shape("one-1", 0, connections=1, window=1, cpu=True),
    Shape("one-16", 0, connections=16, window=1, cpu=True),
    Shape("16k", 16_384, connections=1, window=1),
    Shape("64k", 65_536, connections=1, window=1),
    Shape("16k-4", 16_384, connections=4, window=5),
    Shape("64k-4", 65_536, connections=4, window=5),
)


def touch_memory(folder: Path, size: int) -> None:
    """A virtual machine's host takes memory back that is free for some seconds, and gives it again page by page, which takes
    longer than what is measured. So as much as a load needs is in use just before it."""
    path = folder / "touched"
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    path.unlink()


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    measured: Measured = {}
    for shape in SHAPES:
        topic = f"raw-{shape.key}"
        rig.create_topic(topic)
        batch = frames.batch_of(shape.batch_bytes) if shape.batch_bytes else frames.batch(1)
        request = frames.produce(topic, batch)
        rig.produce(topic, [request], connections=shape.connections, window=shape.window, seconds=rig.effort.warm_seconds / 8)
        if shape.batch_bytes:
            touch_memory(rig.folder, int(LARGE_LOAD_BYTES * rig.effort.scale))
        load = rig.produce(
            topic,
            [request],
            connections=shape.connections,
            window=shape.window,
            count=int(LARGE_LOAD_BYTES * rig.effort.scale) // shape.batch_bytes if shape.batch_bytes else None,
        )
        measured[shape.key] = load.rate * len(batch.data) / 1e6 if shape.batch_bytes else load.rate
        measured[f"{shape.key}-p99"] = load.p99_us / 1e3
        if shape.cpu:
            measured[f"{shape.key}-cpu"] = load.server_cpu_us
    return measured


CASES = (
    Case(
        name="raw-produce",
        title="Produce requests, acks=1",
        about="Headrace with `--durability flush` against Kafka as shipped: neither syncs before it acknowledges. "
        "`loadgen` replays a prebuilt request; a connection waits for each answer unless a window is given. The larger "
        "batches are 805 MB in all, so that the page cache takes them and the figure is the server's, not the disk's.",
        ours=Mode.HEADRACE_FLUSH,
        theirs=Mode.KAFKA,
        also=Mode.HEADRACE,
        measure=measure,
        rows=(
            Row("one-1", "1 record a request, 1 connection", "req/s", aim_ratio=1.3),
            Row("one-16", "1 record a request, 16 connections", "req/s", aim_ratio=1.3),
            Row("16k", "16 KB batches, 1 connection", "MB/s", aim_ratio=1.5),
            Row("64k", "64 KB batches, 1 connection", "MB/s", aim_ratio=2.0),
            Row("16k-4", "16 KB batches, 4 connections, window 5", "MB/s"),
            Row("64k-4", "64 KB batches, 4 connections, window 5", "MB/s"),
            Row("one-1-p99", "p99 latency, 1 record, 1 connection", "ms", better="less"),
            Row("one-16-p99", "p99 latency, 1 record, 16 connections", "ms", better="less"),
            Row("one-1-cpu", "server CPU a request, 1 connection", "µs", better="less", aim_ratio=0.5),
            Row("one-16-cpu", "server CPU a request, 16 connections", "µs", better="less", aim_ratio=0.5),
        ),
    ),
)
