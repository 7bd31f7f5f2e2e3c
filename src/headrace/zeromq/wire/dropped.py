"""What was dropped, counted; and in the log one line every `EVERY_S`, however much it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

EVERY_S = 10.0


class Dropped:
    def __init__(self, where: str, logger: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._where = where
        self._logger = logger
        self._now = now
        self._told = 0
        self._next = 0.0

    def add(self, why: str, count: int = 1) -> None:
        self.count += count
        now = self._now()
        if self._told == 0 or now >= self._next:
            self._logger.warning("%s: dropped %d, %d in all: %s", self._where, self.count - self._told, self.count, why)
            self._told = self.count
            self._next = now + EVERY_S
