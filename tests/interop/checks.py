"""Programs in other languages that check a server, and what they found.

Each prints a line for each of its checks, `=> ok NAME` or `=> FAILED NAME: why`; what else it prints does not matter.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def run_checks(command: Sequence[str], timeout_s: float = 240) -> dict[str, str]:
    """Every check's line by the check's name."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}
