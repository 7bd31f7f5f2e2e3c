"""What is logged of peers that misbehave: at most `LINES_A_SECOND`, for a flood of them must not become a flood of log."""

from __future__ import annotations

import logging

logger = logging.getLogger("headrace.web")

LINES_A_SECOND = 20


class Refusals:
    def __init__(self) -> None:
        self.total = 0
        self._second = -1
        self._lines = 0
        self._unsaid = 0

    def note(self, peer: tuple[str, int], why: str, now: float) -> None:
        self.total += 1
        if int(now) != self._second:
            if self._unsaid:
                logger.warning("and %d more connections were closed for such reasons", self._unsaid)
            self._second, self._lines, self._unsaid = int(now), 0, 0
        self._lines += 1
        if self._lines <= LINES_A_SECOND:
            logger.warning("closed the connection of %s:%d: %s", peer[0], peer[1], why)
        else:
            self._unsaid += 1
