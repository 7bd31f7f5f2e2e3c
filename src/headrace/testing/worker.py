"""A worker that does its jobs when told, so that a test decides what happens between a commit and a checkpoint.

It stands in for a thread of the log (`headrace.log.embedded.threads`): a job that was submitted waits until `work`, and the
event loop hears of its end only at `tell`. In between, a thread would have finished without anybody knowing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Job = Callable[[], None]
Done = Callable[[Exception | None], None]


class HeldWorker:
    def __init__(self) -> None:
        self.waiting: deque[tuple[Job, Done]] = deque()
        self.finished: deque[tuple[Done, Exception | None]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self.waiting.append((job, done))

    def work(self) -> bool:
        """Does the next job; False when none waits."""
        if not self.waiting:
            return False
        job, done = self.waiting.popleft()
        error: Exception | None = None
        try:
            job()
        except Exception as caught:  # as a thread does: handed to `done`, which decides
            error = caught
        self.finished.append((done, error))
        return True

    def tell(self) -> bool:
        """Tells the event loop of the next job that has ended; False when there is none."""
        if not self.finished:
            return False
        done, error = self.finished.popleft()
        done(error)
        return True

    def run(self) -> bool:
        """Everything that can be done; False when there was nothing."""
        moved = False
        while self.work() or self.tell():
            moved = True
        return moved

    def close(self) -> None:
        while self.work():
            pass
