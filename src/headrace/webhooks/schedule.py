"""When an event that failed is tried again, and when it is given up.

Without settings of its own a route follows the schedule that Standard Webhooks give as an example, ten attempts over some three
days; with `first_pause_s` each pause is twice the one before. No pause is longer than `longest_pause_s`. Each is spread over
half of it to one and a half, so that what failed together does not come back together.

An answer may ask for more time (`Retry-After`, RFC 9110 section 10.2.3): the longer of both counts, `LONGEST_ASKED_S` at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from headrace.broker.routes.ends.webhook import WebhookTarget

PAUSES_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
LONGEST_ASKED_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Schedule:
    max_attempts: int
    retry_for_s: float
    first_pause_s: float | None
    longest_pause_s: float

    @classmethod
    def of(cls, target: WebhookTarget) -> Schedule:
        return cls(target.max_attempts, target.retry_for_s, target.first_pause_s, target.longest_pause_s)

    def pause_s(self, attempts: int) -> float:
        """Behind so many attempts, one or more, before it is spread."""
        if self.first_pause_s is None:
            pause = PAUSES_S[min(attempts, len(PAUSES_S)) - 1]
        else:
            pause = self.first_pause_s * 2.0 ** min(attempts - 1, 60)
        return min(pause, self.longest_pause_s)

    def next_ms(
        self, attempts: int, first_ms: int, now_ms: int, *, asked_s: float | None = None, spread: float = 0.5
    ) -> int | None:
        """None if it is given up. `spread` is a random number from 0 to 1, `asked_s` what the answer asked for."""
        if attempts >= self.max_attempts:
            return None
        pause_s = self.pause_s(attempts) * (0.5 + spread)
        if asked_s is not None:
            pause_s = max(pause_s, min(asked_s, LONGEST_ASKED_S))
        due_ms = now_ms + round(pause_s * 1000)
        return due_ms if due_ms - first_ms <= self.retry_for_s * 1000 else None


def asked_pause_s(value: bytes | None, now_ms: int) -> float | None:
    """What `Retry-After` says, as seconds from now; None when it says nothing that can be understood."""
    if value is None or len(value) > 100:
        return None
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_ASKED_S)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return min(max(0.0, moment.timestamp() - now_ms / 1000), LONGEST_ASKED_S)
    except (OverflowError, OSError, ValueError):
        return None


def span(duration_ms: int) -> str:
    """In words: `25 s`, `3.1 days`."""
    seconds = duration_ms / 1000
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:.1f} hours" if seconds < 86_400 else f"{seconds / 86_400:.1f} days"
