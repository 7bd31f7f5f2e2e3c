"""How fast counters grow, from one question to the next.

Nothing is sampled while nobody asks. Whoever asks for an object leaves a sample of its counters, at most one in `EVERY_S`; the
next question divides what came since by the time since. The first question finds no rate, which is what 0.0 says. Who asks for
a history (`lengths_age` and the like) is shown those samples, and what the average over them is: more is not kept.

Bounds: two samples for each object, `MAX_OBJECTS` objects (those not asked for the longest are forgotten), and a sample older
than `KEPT_S` says nothing any more.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.clock import Clock

EVERY_S = 5.0
YOUNGEST_S = 1.0  # a rate over less time than this jumps about
KEPT_S = 60.0
MAX_OBJECTS = 50_000


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    counters: Mapping[str, int]


Samples = dict[Hashable, tuple[_Sample | None, _Sample]]  # the one before, and the newest


class Rates:
    def __init__(self, clock: Clock, samples: Samples | None = None) -> None:
        self._clock = clock
        self._samples: Samples = {} if samples is None else samples

    def with_samples(self) -> Rates:
        """The same, for somebody who asks for a history."""
        return _Shown(self._clock, self._samples)

    def counted(self, key: Hashable, counters: Mapping[str, int]) -> dict[str, object]:
        """The counters, each followed by its rate."""
        rates = self.of(key, counters)
        answer: dict[str, object] = {}
        for name, value in counters.items():
            answer[name] = value
            answer[f"{name}_details"] = {"rate": rates[name], **self._history(key, name, value)}
        return answer

    def _history(self, key: Hashable, name: str, value: int) -> Mapping[str, object]:
        return {}

    def of(self, key: Hashable, counters: Mapping[str, int]) -> dict[str, float]:
        now = self._clock.monotonic()
        before, newest = self._samples.pop(key, (None, None))
        base = newest
        if newest is not None and now - newest.at < YOUNGEST_S:
            base = before
        if newest is None or now - newest.at >= EVERY_S:
            before, newest = newest, _Sample(now, dict(counters))
        self._samples[key] = (before, newest)  # the last that was asked for stands last
        if len(self._samples) > MAX_OBJECTS:
            del self._samples[next(iter(self._samples))]
        if base is None or now - base.at > KEPT_S:
            return dict.fromkeys(counters, 0.0)
        spent = now - base.at
        return {name: round((value - base.counters.get(name, value)) / spent, 3) for name, value in counters.items()}


class _Shown(Rates):
    def _history(self, key: Hashable, name: str, value: int) -> Mapping[str, object]:
        """Newest first, and now before them."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        before, newest = self._samples[key]
        kept = [each for each in (newest, before) if each is not None and 0 < now - each.at <= KEPT_S]
        found = [(now, value), *((each.at, each.counters.get(name, value)) for each in kept)]
        since, first = found[-1]
        return {
            "avg": sum(sample for _, sample in found) / len(found),
            "avg_rate": (value - first) / (now - since) if since < now else 0.0,
            "samples": [{"sample": sample, "timestamp": now_ms - round((now - at) * 1000)} for at, sample in found],
        }
