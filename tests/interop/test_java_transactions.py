"""Transactions with Apache Kafka's own Java client: java/Transactions.java in one JVM, one test here for each of its checks."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.interop.test_java import HERE, jars

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CHECKS = ["committed-and-aborted", "fencing", "copy", "aborted-copy", "admin"]


@pytest.fixture(scope="module")
def report(bootstrap: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    program = str(HERE / "Transactions.java")
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", program, bootstrap],
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_clients_transactions_work(check, report):
    assert report.get(check) == f"ok {check}"
