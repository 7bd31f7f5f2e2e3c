"""What one endpoint is spared, and what it may take: how many requests at once, how many a second, and none while it is down.

*At once*: an endpoint begins with one request at a time and may have one more for each that succeeded, up to its concurrency;
one that failed takes it back to one. So an endpoint that hangs holds one connection and not eight, and one that comes back
after an outage is not run over.

*A second*: a bucket of tokens, filled at the rate, which holds a second's worth, and one at least.

*Down*: after `OPEN_AFTER` failures in a row the breaker opens. For a while (`FIRST_OPEN_S`, twice as long each time, up to
`LONGEST_OPEN_S`, spread by half) nothing is sent; then one event is, and its answer closes the breaker or keeps it open. An
answer that asks for a pause (`Retry-After`) is granted it, whether open or not, up to `LONGEST_HOLD_S`.

Time is that of `Clock.monotonic`, in seconds.
"""

from __future__ import annotations

from math import inf

OPEN_AFTER = 10
FIRST_OPEN_S = 5.0
LONGEST_OPEN_S = 300.0
LONGEST_HOLD_S = 3600.0


class Breaker:
    """Closed at first."""

    __slots__ = ("_open_s", "failures", "probing", "until")

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.until: float | None = None  # open; the time from which on one event may try
        self.probing = False
        self._open_s = FIRST_OPEN_S

    @property
    def is_open(self) -> bool:
        return self.until is not None

    def succeeded(self) -> None:
        self.failures = 0
        self.until = None
        self.probing = False
        self._open_s = FIRST_OPEN_S

    def failed(self, now: float, spread: float) -> bool:
        """Whether it has opened with that. `spread` is a random number from 0 to 1."""
        self.failures += 1
        was_open = self.is_open
        if was_open and not self.probing:
            return False  # one that was under way when it opened
        if not was_open and self.failures < OPEN_AFTER:
            return False
        self.probing = False
        self.until = now + self._open_s * (0.75 + spread / 2)
        self._open_s = min(2 * self._open_s, LONGEST_OPEN_S)
        return not was_open


class Bucket:
    """Tokens at a rate; without a rate there is always one."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate_per_s: float | None, now: float) -> None:
        self._rate = rate_per_s
        self._tokens = self._most
        self._at = now

    @property
    def _most(self) -> float:
        return 1.0 if self._rate is None else max(1.0, self._rate)

    def wait_s(self, now: float) -> float:
        """How long until there is one; 0 if there is."""
        if self._rate is None:
            return 0.0
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._rate)
        self._at = now
        # a token that is short by a rounding is one
        return 0.0 if self._tokens >= 1.0 - 1e-9 else (1.0 - self._tokens) / self._rate

    def take(self) -> None:
        if self._rate is not None:
            self._tokens -= 1.0


class Limits:
    """Of one endpoint."""

    __slots__ = ("_bucket", "_held_until", "_most", "allowance", "breaker", "in_flight")

    def __init__(self, concurrency: int, rate_per_s: float | None, now: float) -> None:
        self.breaker = Breaker()
        self.in_flight = 0
        self.allowance = 1
        self._most = concurrency
        self._bucket = Bucket(rate_per_s, now)
        self._held_until = 0.0

    def wait_s(self, now: float) -> float:
        """How long until the next request may begin: 0 for now, `inf` for when one of those under way has ended."""
        breaker = self.breaker
        if self.in_flight >= self.allowance or breaker.probing:
            return inf
        wait = max(0.0, self._held_until - now)
        if breaker.until is not None:
            if self.in_flight:
                return inf
            wait = max(wait, breaker.until - now)
        return max(wait, self._bucket.wait_s(now))

    @property
    def is_slow(self) -> bool:
        return self.breaker.is_open or self.allowance == 1

    def began(self) -> None:
        self.in_flight += 1
        self._bucket.take()
        if self.breaker.is_open:
            self.breaker.probing = True

    def ended(self) -> None:
        """Without a verdict on the endpoint: it was not asked."""
        self.in_flight -= 1
        self.breaker.probing = False

    def succeeded(self) -> None:
        self.in_flight -= 1
        self.breaker.succeeded()
        self._held_until = 0.0
        self.allowance = min(self.allowance + 1, self._most)

    def failed(self, now: float, spread: float, asked_s: float | None = None) -> bool:
        """Whether the breaker has opened with that."""
        self.in_flight -= 1
        self.allowance = 1
        if asked_s:
            self._held_until = max(self._held_until, now + min(asked_s, LONGEST_HOLD_S))
        return self.breaker.failed(now, spread)
