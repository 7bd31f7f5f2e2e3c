"""Where blocking disk work runs: on threads beside the event loop, or at once where a test holds time still."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Job = Callable[[], None]
Done = Callable[[Exception | None], None]


class Worker(Protocol):
    """Does one job after the other."""

    def submit(self, job: Job, done: Done) -> None:
        """Runs `job` elsewhere, then `done` with its exception or None on the event loop's thread."""
        ...

    def close(self) -> None:
        """Returns when every job that was submitted has ended."""
        ...


class ThreadWorker:
    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            error: Exception | None = None
            try:
                job()
            except Exception as caught:  # handed to `done`, which decides
                error = caught
            try:
                self._loop.call_soon_threadsafe(done, error)
            except RuntimeError:  # the loop has closed: nobody is left to tell
                return

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()


class InlineWorker:
    """For tests and tools: each job runs when it is submitted."""

    def submit(self, job: Job, done: Done) -> None:
        error: Exception | None = None
        try:
            job()
        except Exception as caught:
            error = caught
        done(error)

    def close(self) -> None:
        return
