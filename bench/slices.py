"""What something costs that can be switched on and off while one load runs: in slices of the load, with it and without it in
turns.

Two loads of some seconds each would differ by what the machine does meanwhile, and that is more than what is to be found out.
Slices of some seconds meet the same machine. The first `SETTLE_S` of each count for neither.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SLICE_S = 3.0
SETTLE_S = 0.5


@dataclass(slots=True)
class Side:
    """All slices with it, or all without."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the server
    latencies_ns: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies_ns) / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of the server, a request."""
        return self.cpu_seconds * 1e6 / len(self.latencies_ns)

    def us(self, share: float) -> float:
        """A percentile."""
        return sorted(self.latencies_ns)[int(share * len(self.latencies_ns))] / 1e3


class Slices:
    """Switches from the moment it is made until it is stopped."""

    def __init__(self, switch: Callable[[bool], None], cpu_seconds: Callable[[], float]) -> None:
        self._switch = switch
        self._cpu_seconds = cpu_seconds
        self._begun: list[tuple[int, int, bool, float]] = []  # from when to when, with it or without, and the CPU time in it
        self.on_seconds = 0.0  # with it, settling included
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        on = False
        while not self._stopping.is_set():
            self._switch(on)
            switched_s = time.monotonic()
            if not self._stopping.wait(SETTLE_S):
                self._slice(on)
            if on:
                self.on_seconds += time.monotonic() - switched_s
            on = not on

    def _slice(self, on: bool) -> None:
        start, cpu = time.monotonic_ns(), self._cpu_seconds()
        if not self._stopping.wait(SLICE_S - SETTLE_S):
            self._begun.append((start, time.monotonic_ns(), on, self._cpu_seconds() - cpu))

    def sides(self, answers: Path) -> tuple[Side, Side]:
        """Without it, and with it, of a load that has written its answers down."""
        sides = (Side(), Side())
        for start, end, on, cpu in self._begun:
            sides[on].seconds += (end - start) / 1e9
            sides[on].cpu_seconds += cpu
        starts = [start for start, _, _, _ in self._begun]
        numbers = array("Q", answers.read_bytes())
        for begun, took in zip(numbers[::2], numbers[1::2], strict=True):
            place = bisect_right(starts, begun) - 1
            if place >= 0 and begun < self._begun[place][1]:
                sides[self._begun[place][2]].latencies_ns.append(took)
        return sides


@contextmanager
def slices(switch: Callable[[bool], None], cpu_seconds: Callable[[], float]) -> Iterator[Slices]:
    running = Slices(switch, cpu_seconds)
    try:
        yield running
    finally:
        running.stop()
