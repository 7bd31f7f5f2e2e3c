"""Kafka's two ways to measure against a limit: a rate over sliding windows, and a bucket of tokens.

`WindowedRate` is `quota.window.num` samples of `quota.window.size.seconds` each. The rate is what all samples hold, divided
by the time since the oldest began, which counts as at least all windows but one: a client that has just begun is not
measured over a moment. Above the limit the time to wait is what stretches that span until the rate is the limit:

    rate * span / (span + wait) = limit

`TokenBucket` (KIP-599) is for bursts: it fills with the limit for each second, up to all windows' worth, and may be
overdrawn once; the wait is the time until it is at zero again.

Both take the time with each call, in milliseconds of a steady clock.
"""

from __future__ import annotations

from headrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    count: int
    size_ms: int


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: float) -> None:
        self.start_ms = self.last_ms = now_ms
        self.amount = 0.0


class WindowedRate:
    __slots__ = ("_samples", "_windows", "limit")

    def __init__(self, windows: Windows, limit: float) -> None:
        self._windows = windows
        self.limit = limit
        self._samples: list[_Sample] = []  # oldest first; one more than there are windows, for the one half out of sight

    def record(self, amount: float, now_ms: float) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms))
            if len(samples) > self._windows.count + 1:
                del samples[0]
        sample = samples[-1]
        sample.amount += amount
        sample.last_ms = now_ms

    def excess_ms(self, now_ms: float) -> int:
        """How long to wait until what was recorded is within the limit again; 0 when it is."""
        span_ms = self._span_ms(now_ms)
        rate = self.total * 1000 / span_ms
        if rate <= self.limit:
            return 0
        return round((rate - self.limit) / self.limit * span_ms)

    @property
    def total(self) -> float:
        return sum(sample.amount for sample in self._samples)

    def forget_old(self, now_ms: float) -> None:
        expired_ms = self._windows.count * self._windows.size_ms
        if self._samples and now_ms - self._samples[0].last_ms >= expired_ms:
            self._samples = [sample for sample in self._samples if now_ms - sample.last_ms < expired_ms]

    def _span_ms(self, now_ms: float) -> float:
        self.forget_old(now_ms)
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0.0
        full = int(elapsed_ms // self._windows.size_ms)
        missing = max(0, self._windows.count - 1 - full)
        return max(elapsed_ms + missing * self._windows.size_ms, 1.0)

    @property
    def most_at_once(self) -> float:
        """More than this in one piece is above the limit even when nothing else was recorded."""
        return self.limit * (self._windows.count - 1) * self._windows.size_ms / 1000


class TokenBucket:
    __slots__ = ("_last_ms", "_tokens", "_windows", "limit")

    def __init__(self, windows: Windows, limit: float, now_ms: float) -> None:
        self._windows = windows
        self.limit = limit
        self._tokens = self._most
        self._last_ms = now_ms

    @property
    def _most(self) -> float:
        return self.limit * self._windows.count * self._windows.size_ms / 1000

    def record(self, amount: float, now_ms: float) -> None:
        self._fill(now_ms)
        self._tokens = min(self._most, self._tokens - amount)

    def excess_ms(self, now_ms: float) -> int:
        self._fill(now_ms)
        return round(-self._tokens / self.limit * 1000) if self._tokens < 0 else 0

    def _fill(self, now_ms: float) -> None:
        self._tokens = min(self._most, self._tokens + self.limit * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
