"""`headrace demo` in a process of its own, and what it says line by line."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ANYWHERE = [part for name in ("kafka", "amqp", "kinesis", "http") for part in (f"--{name}", "127.0.0.1:0")]


class Demo:
    """Says everything within `patience_s`."""

    def __init__(self, data: Path, patience_s: float, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "demo", "--data", str(data), *ANYWHERE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )
        self._patience_s = patience_s
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def until(self, wanted: Callable[[str], bool]) -> str:
        said: list[str] = []
        deadline = time.monotonic() + self._patience_s
        while line := self._lines.get(timeout=self._patience_s).decode():
            assert time.monotonic() < deadline, "not in time:\n" + "".join(said)
            said.append(line)
            if wanted(line):
                return line
        raise AssertionError("it ended before that:\n" + "".join(said))

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        code = self.process.wait(self._patience_s)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()


@contextmanager
def demos(data: Path, patience_s: float) -> Iterator[Callable[..., Demo]]:
    """Starts them, on one folder; those that are left are ended."""
    started: list[Demo] = []

    def call(*arguments: str, **environment: str) -> Demo:
        started.append(Demo(data, patience_s, *arguments, **environment))
        return started[-1]

    yield call
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(60)
