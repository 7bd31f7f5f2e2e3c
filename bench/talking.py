"""A load program that is told what to do while it runs: a line in, a line of JSON out, one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.rig import LoadError


class Talking:
    """`module` is one of bench; it says something first, which is `ready`."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        command = [sys.executable, "-m", module, *arguments]
        root = Path(__file__).parents[1]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True)
        try:
            self.ready = self._answer()
        except LoadError:
            self.close()
            raise

    def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LoadError(f"{self._module} ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
