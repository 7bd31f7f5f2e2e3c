"""Resident memory of the server at rest, and through a load that writes and reads."""

from __future__ import annotations

import threading
import time
from statistics import median

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

SAMPLE_S = 0.1
REST_S = 2.0


class Sampler(threading.Thread):
    """Notes the server's resident memory until it is told to stop."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(daemon=True)
        self.rig = rig
        self.samples: list[float] = []
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.samples.append(self.rig.server.rss_bytes() / 1e6)

    def finish(self) -> list[float]:
        self._over.set()
        self.join()
        return self.samples


def measure(rig: Rig) -> Measured:
    time.sleep(REST_S)  # start-up garbage is given back, or it is not: both are what "at rest" means
    rest = rig.server.rss_bytes() / 1e6
    rig.create_topic("load", partitions=10)
    batch = frames.batch_of(16_384)
    writes = [frames.produce("load", batch, partitions=[index]) for index in range(10)]
    reads = [frames.fetch("load", partition=index, max_bytes=1 << 20) for index in range(10)]
    sampler = Sampler(rig)
    sampler.start()
    turns = 8
    for _ in range(turns):
        rig.produce("load", writes, connections=8, window=4, seconds=rig.effort.seconds / 2)
        end = rig.end_offsets("load") // 10 // 2
        rig.fetch(reads, step=batch.records * 8, end=end, connections=8, seconds=rig.effort.seconds / 2)
    samples = sampler.finish()
    return {"rest": rest, "peak": max(samples), "flat": flatness(samples)}


def flatness(samples: list[float]) -> float:
    """The last quarter against the second one: 1.0 is flat. The first quarter is the caches filling."""
    quarter = len(samples) // 4
    return median(samples[-quarter:]) / median(samples[quarter : 2 * quarter])


CASES = (
    Case(
        name="memory",
        title="Memory",
        about="Resident memory of the process, two seconds after the start and through alternating writes (16 KB "
        "batches to 10 partitions, 8 connections) and reads of 1 MB.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=(
            Row("rest", "at rest", "MB", better="less", aim_value=60),
            Row("peak", "highest under load", "MB", better="less"),
            Row("flat", "last quarter of the load / second quarter", "x", better="less", aim_value=1.1),
        ),
    ),
)
