"""The AWS SDK for Go: the program in go/ built once, one test here for all of its checks. Needs `go`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("go")
CHECKS = [
    "put-and-get",
    "errors",
    "subscribe",
    "subscribe-split",
    "subscribe-twice",
    "subscribe-deleted-stream",
    "subscribe-closed",
]


@pytest.fixture(scope="module")
def report(kinesis_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("go") is None:
        pytest.skip("needs Go (go)")
    fetched = subprocess.run(["go", "mod", "download"], cwd=HERE, capture_output=True, text=True, timeout=240)
    if fetched.returncode != 0:
        pytest.skip(f"go could not fetch the AWS SDK for Go: {fetched.stderr[-500:]}")
    program = tmp_path_factory.mktemp("go") / "interop"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE, check=True, timeout=240)
    run = subprocess.run([str(program), kinesis_url], capture_output=True, text=True, timeout=240)
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


def test_the_go_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
