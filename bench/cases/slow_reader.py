"""Ten fast readers of a topic, alone and beside one that hardly reads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean

from bench import frames
from bench.model import Case, Measured, Mode, Row
from bench.rig import Rig

BATCH_BYTES = 16_384
BATCHES = 4096
FETCH_BYTES = 1 << 18
FAST = 10


def measure(rig: Rig) -> Measured:
    rig.warm_up()
    batch = frames.batch_of(BATCH_BYTES)
    rig.create_topic("shared")
    rig.produce("shared", [frames.produce("shared", batch)], connections=2, count=BATCHES)
    request = frames.fetch("shared", max_bytes=FETCH_BYTES)

    def fast_readers(seconds: float) -> float:
        step, end = batch.records * (FETCH_BYTES // BATCH_BYTES), batch.records * BATCHES
        return rig.fetch([request], step=step, end=end, connections=FAST, seconds=seconds).record_mb_per_s

    fast_readers(rig.effort.warm_seconds / 4)
    alone, beside = [], []
    for _ in range(2):  # in turn, so that what changes on the machine meanwhile meets both
        alone.append(fast_readers(rig.effort.seconds))
        with slow_reader(rig.server.host, rig.server.port, request.data):
            beside.append(fast_readers(rig.effort.seconds))
    return {"alone": mean(alone), "beside": mean(beside), "kept": mean(beside) / mean(alone)}


@contextmanager
def slow_reader(host: str, port: int, request: bytes) -> Iterator[None]:
    """Asks for much, takes 1 KB every 20 ms through a small window, and never catches up."""
    over = threading.Event()
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect((host, port))
        link.settimeout(1)
        link.sendall(request * 8)

        def dawdle() -> None:
            while not over.wait(0.02):
                try:
                    link.recv(1024)
                except OSError:
                    return

        thread = threading.Thread(target=dawdle, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


CASES = (
    Case(
        name="slow-reader",
        title="One slow reader beside ten fast ones",
        about="Ten connections fetch 256 KB at a time; the slow one asks for as much and takes 50 KB/s.",
        ours=Mode.HEADRACE,
        theirs=Mode.KAFKA,
        measure=measure,
        rows=(
            Row("alone", "ten fast readers", "MB/s"),
            Row("beside", "the same beside a slow one", "MB/s"),
            Row("kept", "rate kept", "x", aim_value=0.95),
        ),
    ),
)
