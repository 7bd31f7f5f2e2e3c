"""Processes that a command starts and ends: their lines as they come, and an end in good order.

A child has a process group of its own, so that Ctrl-C reaches only its parent, which ends its children one after the other.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any


class Child:
    """`headrace …` as a process whose stdout is one JSON object a line; what it says on stderr goes to a file."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self._asked = False
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"lines of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def news(self) -> list[dict[str, Any]]:
        """What it has printed since the last call."""
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

    def last_words(self) -> str:
        """The last line of its log, which says why it ended; the text of an error that was printed as JSON."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        try:
            return str(json.loads(lines[-1])["error"]["message"]) if lines else ""
        except (ValueError, KeyError, TypeError):
            return lines[-1]

    def ask_to_end(self) -> None:
        """Once: a second time would mean at once."""
        if self.code is None and not self._asked:
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def end(self, grace_s: float) -> bool:
        """Asks it to end and waits; kills it when it does not. True when it ended by itself."""
        self.ask_to_end()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._reader.join(1)
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                pass  # not one of ours
