"""Tells the topics, beside the run and on a thread of its own, that it lives and what its log says.

Every `TURN_S` the lines that are new in the log are published, and what the runner notes itself; every `BEAT_S` how the run
stands, so that somebody who watches can tell one that is quiet from one that was killed. The thread has connections of its own,
and a server that does not answer holds up nothing but the thread.

Bounds: `WAITING` entries wait for a server that does not answer, the oldest are dropped then; `BATCH` are published at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.spark.runner.log_lines import MOST_CHARACTERS, WARN, LogEntry, LogFile
from headrace.spark.runner.progress import utc_now
from headrace.spark.runner.publishing import LOG_TOPIC, TIMEOUT_S, Publisher

TURN_S = 1.0
BEAT_S = 10.0
WAITING = 2000
BATCH = 500
LOGGER = "headrace"


class Teller:
    """`about` gives what is published of the run; it is called on the thread."""

    def __init__(self, server: str, pipeline: str, log: Path, about: Callable[[], dict[str, Any]]) -> None:
        self._server = server
        self._pipeline = pipeline
        self._file = LogFile(log)
        self._about = about
        self._waiting: deque[LogEntry] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._wake, self._ending = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name=f"tell-{pipeline}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note(self, level: str, text: str, query: str = "") -> None:
        """Something that the runner has to say."""
        self._keep([LogEntry(utc_now(), level, text[:MOST_CHARACTERS], LOGGER, query)])

    def tell(self) -> None:
        """At once how the run stands: it has changed."""
        self._wake.set()

    def close(self) -> None:
        """Publishes what is left, if the server answers."""
        self._ending = True
        self._wake.set()
        self._thread.join(4 * TIMEOUT_S)

    def _run(self) -> None:
        state, log = Publisher(self._server), Publisher(self._server, LOG_TOPIC)
        next_beat_s = 0.0
        while not self._ending:
            changed = self._wake.is_set()
            self._wake.clear()
            if changed or time.monotonic() >= next_beat_s:
                state.publish([(self._pipeline, self._about())])
                next_beat_s = time.monotonic() + BEAT_S
            self._publish(log)
            self._wake.wait(TURN_S)
        self._publish(log, last=True)
        state.close()
        log.close()

    def _publish(self, log: Publisher, *, last: bool = False) -> None:
        self._keep(self._file.news(utc_now(), last=last))
        while batch := self._take():
            if not log.publish([(self._key(entry), entry.json(self._pipeline)) for entry in batch]):
                with self._lock:
                    self._waiting.extendleft(reversed(batch))
                return

    def _take(self) -> list[LogEntry]:
        with self._lock:
            if self._dropped:
                text = f"{self._dropped:,} entries were dropped here, for the server did not answer"
                self._waiting.appendleft(LogEntry(utc_now(), WARN, text, LOGGER))
                self._dropped = 0
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    def _keep(self, entries: list[LogEntry]) -> None:
        with self._lock:
            self._waiting.extend(entries)
            while len(self._waiting) > WAITING:
                self._waiting.popleft()
                self._dropped += 1

    def _key(self, entry: LogEntry) -> str:
        return f"{self._pipeline}/{entry.query}" if entry.query else self._pipeline
