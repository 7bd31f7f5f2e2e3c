"""examples/kinesis does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "kinesis" / "live_resharding.py"

pytest.importorskip("boto3", reason="boto3 is not installed")
pytestmark = pytest.mark.timeout(150)


def test_a_stream_is_resharded_under_a_producer_and_two_readers() -> None:
    command = [sys.executable, EXAMPLE, "--records", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said["producer"] == "1000 records put, none refused"
    assert re.fullmatch(r"\d+ shards so far, 1 of them open", said["resharding"])
    assert re.fullmatch(r"1000 records of 20 taxis, each once, in \d+ partitions", said["kafka"])
    assert said["kinesis"] == "1000 records of 20 taxis, each taxi's in order"
