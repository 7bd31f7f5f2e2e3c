"""franz-go: the program in go/ built once, one test here for each of its checks. Needs `go`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("go")
CHECKS = [
    *(f"round-trip-{compression}" for compression in ("none", "gzip", "snappy", "lz4", "zstd")),
    "acks-none",
    "acks-leader",
    "order",
    "too-large",
    "seek-and-times",
    "long-poll",
    "auto-create",
    "deleted-topic",
    "group-range",
    "group-cooperative-sticky",
    "group-crash",
    "group-static",
    "group-resume",
    "admin-topics",
    "admin-groups",
]


@pytest.fixture(scope="module")
def report(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("go") is None:
        pytest.skip("needs Go (go)")
    fetched = subprocess.run(["go", "mod", "download"], cwd=HERE, capture_output=True, text=True, timeout=240)
    if fetched.returncode != 0:
        pytest.skip(f"go could not fetch franz-go: {fetched.stderr[-500:]}")
    program = tmp_path_factory.mktemp("go") / "interop"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=HERE, check=True, timeout=240)
    run = subprocess.run([str(program), bootstrap], capture_output=True, text=True, timeout=240)
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_franz_go_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
