"""From the start of the process to the first acknowledged record, on a folder that has a topic already."""

from __future__ import annotations

import time
from statistics import median

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.peers import Server, free_port
from bench.rig import LoadError, Rig

STARTS = 3
DEADLINE_S = 120


def measure(rig: Rig) -> Measured:
    with rig.serving():
        rig.create_topic("first")
    took = []
    for _ in range(STARTS):
        with rig.serving(port=free_port(), wait=False) as server:
            took.append(first_acknowledgement(server) - server.spawned_at)
    return {"first": median(took)}


def first_acknowledgement(server: Server) -> float:
    """When an acks=all produce first succeeded, asked for again and again."""
    request = frames.produce("first", frames.batch(1), acks=-1).data
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise LoadError(f"{server.name} ended: see {server.output}")
        try:
            if frames.is_acknowledged(frames.exchange(server.host, server.port, request)):
                return time.perf_counter()
        except OSError:
            pass
        time.sleep(0.005)
    raise LoadError(f"{server.name} acknowledged nothing for {DEADLINE_S} s")


CASES = (
    Case(
        name="start",
        title="Start",
        about="From the start of the process to the first acknowledged acks=all produce, to a topic that exists. "
        "Headrace syncs before that acknowledgement, Kafka does not.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        serve=False,
        rows=(Row("first", "first acknowledged produce", "s", better="less", aim_ratio=0.1, aim_value=0.5),),
    ),
)
