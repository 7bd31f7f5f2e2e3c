"""A limit on how fast all copies together go to the store (KIP-956), so that they leave room on the line for others.

Each piece is told when it may go: right behind the one before it, at the rate that holds. Threads wait in short steps and look
whether the server is ending.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

NO_LIMIT = 0x7FFF_FFFF_FFFF_FFFF
_STEP_S = 0.1


class Pace:
    def __init__(
        self,
        bytes_per_s: int = NO_LIMIT,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s  # may be changed at any time
        self._now = now
        self._sleep = sleep
        self._free_at = 0.0
        self._guard = threading.Lock()

    def wait(self, size: int, stopping: Callable[[], bool]) -> None:
        """Returns when so many bytes may go."""
        if self.bytes_per_s >= NO_LIMIT:
            return
        with self._guard:
            mine = max(self._now(), self._free_at)
            self._free_at = mine + size / self.bytes_per_s
        while (left := mine - self._now()) > 0 and not stopping():
            self._sleep(min(left, _STEP_S))
