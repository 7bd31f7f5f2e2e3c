"""What something costs that can be switched on and off while one load runs: in slices of the load, with it and without it in
turns.

Two loads of some seconds each would differ by what the machine does meanwhile, and that is more than what is to be found out.
Slices of some seconds meet the same machine. What comes before each while things settle counts for neither side: after it was
switched on that takes longer, because whatever was to be done while it was off is due at once, as it never is in use.

A machine that stops for a while, as virtual ones do, makes up the whole p99 of the side that it happens to. So each slice is
compared with its neighbours, and a ratio is the median of those: what happens to a few slices does not count. How far that
median can be trusted is told by medians of the same pairs drawn again, with repetition (a bootstrap): nine in ten of them are
between the bounds.
"""

from __future__ import annotations

import random
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

SLICE_S = 2.0
SETTLE_ON_S, SETTLE_OFF_S = 3.0, 0.5  # before it
DRAWS = 1000
OUTSIDE = 0.05  # of the draws, below a bound and above the other


@dataclass(slots=True)
class Side:
    """One slice, or all with it, or all without."""

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
            if not self._stopping.wait(SETTLE_ON_S if on else SETTLE_OFF_S):
                self._slice(on)
            if on:
                self.on_seconds += time.monotonic() - switched_s
            on = not on

    def _slice(self, on: bool) -> None:
        start, cpu = time.monotonic_ns(), self._cpu_seconds()
        if not self._stopping.wait(SLICE_S):
            self._begun.append((start, time.monotonic_ns(), on, self._cpu_seconds() - cpu))

    def each(self, answers: Path) -> list[tuple[bool, Side]]:
        """Every slice of a load that has written its answers down, and whether it was with it."""
        found = [(on, Side((end - start) / 1e9, cpu)) for start, end, on, cpu in self._begun]
        starts = [start for start, _, _, _ in self._begun]
        numbers = array("Q", answers.read_bytes())
        for begun, took in zip(numbers[::2], numbers[1::2], strict=True):
            place = bisect_right(starts, begun) - 1
            if place >= 0 and begun < self._begun[place][1]:
                found[place][1].latencies_ns.append(took)
        return found


def pooled(found: list[tuple[bool, Side]], on: bool) -> Side:
    """All slices with it, or all without."""
    side = Side()
    for each_on, each in found:
        if each_on == on:
            side.seconds += each.seconds
            side.cpu_seconds += each.cpu_seconds
            side.latencies_ns += each.latencies_ns
    return side


@dataclass(frozen=True, slots=True)
class Ratio:
    """With it to without it: the median of all neighbours, and the bounds of where it is."""

    median: float
    least: float
    most: float


def ratio(found: list[tuple[bool, Side]], figure: Callable[[Side], float]) -> Ratio:
    sides = [(on, figure(side)) for on, side in found if side.latencies_ns]
    pairs = [(one, other) if on else (other, one) for (on, one), (other_on, other) in pairwise(sides) if on != other_on]
    ratios = [with_it / without for with_it, without in pairs]
    draw = random.Random(len(ratios))
    drawn = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    outside = int(OUTSIDE * DRAWS)
    return Ratio(median(ratios), drawn[outside], drawn[-1 - outside])


@contextmanager
def slices(switch: Callable[[bool], None], cpu_seconds: Callable[[], float]) -> Iterator[Slices]:
    running = Slices(switch, cpu_seconds)
    try:
        yield running
    finally:
        running.stop()
