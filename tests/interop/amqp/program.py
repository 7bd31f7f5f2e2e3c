"""Programs under test in processes of their own: what they print, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.testing import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples" / "amqp"


class Program:
    """A Python program that runs until it is told to stop: `Program(folder, "hello/receive.py", url=…)`."""

    def __init__(
        self, scratch: Path, *arguments: str, url: str, environment: Mapping[str, str] | None = None, cwd: Path = EXAMPLES
    ) -> None:
        self._output = scratch / f"output-{os.urandom(4).hex()}.txt"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-u", *arguments],
                cwd=cwd,
                env={**os.environ, "AMQP_URL": url, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._output.read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1]

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        wait_until(lambda: text in self.text or self._ended(), timeout_s=timeout_s, what=f"{text!r} in:\n{self.text}")
        assert text in self.text, self.text

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def finish(self) -> list[str]:
        """Waits until the program ends by itself; returns what it printed."""
        assert self.process.wait(60) == 0, self.text
        return self.lines

    def interrupt(self) -> None:
        """Ctrl-C, which must end it in good order."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == 0, self.text

    def kill(self) -> None:
        """Ends it and all its children without a word."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
