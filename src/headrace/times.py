"""How long something takes: a histogram with fixed bounds. One writes it, anybody reads it. To add a time costs less than a
microsecond, so every request can be timed."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Times:
    __slots__ = ("counts", "total_s")

    bounds_s = BOUNDS_S

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)  # up to each bound, and above all of them
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds
