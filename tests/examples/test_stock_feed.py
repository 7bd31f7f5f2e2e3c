"""examples/direct/stock_feed.py does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "direct" / "stock_feed.py"


def test_only_who_recovers_misses_nothing() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    found = re.fullmatch(r"plain +(\d+) of 20000 ticks, (\d+) missing in (\d+) gaps, 0 fetched back", lines["plain"])
    assert found, done.stdout
    events, missing, gaps = map(int, found.groups())
    assert events + missing == 20_000
    assert missing > 100
    assert gaps > 10
    assert re.fullmatch(r"whole +20000 of 20000 ticks, 0 missing in 0 gaps, \d+ fetched back", lines["whole"]), done.stdout
    assert re.fullmatch(r"late +20000 of 20000 ticks, 0 missing in 0 gaps, \d+ fetched back", lines["late"]), done.stdout
    assert lines["prices"] == "prices of whole and late are the same"
