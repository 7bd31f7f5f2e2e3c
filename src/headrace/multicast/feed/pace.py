"""How fast datagrams may leave: so many bytes in a second, but for `BURST_BYTES` at a time."""

from __future__ import annotations

BURST_BYTES = 64 * 1024  # half of what a socket's buffer holds by default


class Pace:
    """Without a rate there is no bound. A datagram may be larger than what is left: the debt is worked off afterwards."""

    def __init__(self, bytes_per_s: int, now: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._left = float(BURST_BYTES)
        self._at = now

    def wait_s(self, now: float) -> float:
        """How long until the next datagram may leave; 0 if it may now."""
        rate = self._bytes_per_s
        if not rate:
            return 0.0
        self._left = min(BURST_BYTES, self._left + (now - self._at) * rate)
        self._at = now
        return 0.0 if self._left > 0 else (1 - self._left) / rate

    def spend(self, size: int) -> None:
        self._left -= size
