"""A thread that does one thing until it is closed, and what it has done so far.

What goes wrong is kept as `trouble` and tried again after a pause: a demo must survive that somebody deletes its queue in the
console. Counts are written by the thread alone and read by others, so they need no lock.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from headrace.cli.demo_feeds.amqp_link import AmqpError
from headrace.client.kafka import ClientError
from headrace.client.kinesis.errors import KinesisError
from headrace.client.management import ManagementError

AGAIN_S = 1.0
JOIN_S = 5.0
_EXPECTED = (AmqpError, ClientError, KinesisError, ManagementError, OSError)


class Background(ABC):
    name = ""
    protocol = ""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.trouble: str | None = None
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"demo {self.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Asks it to end; `join` waits for that."""
        self.ended.set()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def told(self) -> Mapping[str, int]:
        return dict(self.counts)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    @abstractmethod
    def _work(self) -> None:
        """Returns when `ended` is set."""

    def _run(self) -> None:
        while not self.ended.is_set():
            try:
                self._work()
                self.trouble = None
            except _EXPECTED as error:
                self.trouble = f"{self.name}: {error}"
            self.ended.wait(AGAIN_S)


class Pace:
    """So many a second; one who fell behind does not catch up in a burst."""

    def __init__(self, rate: float, most: int) -> None:
        self._rate = rate
        self._most = most
        self._last = time.monotonic()
        self._owed = 1.0

    def due(self) -> int:
        now = time.monotonic()
        self._owed = min(self._owed + (now - self._last) * self._rate, float(self._most))
        self._last = now
        whole = int(self._owed)
        self._owed -= whole
        return whole
