"""Apache Kafka's own Java client under the consumer protocol (KIP-848): java/ConsumerGroups.java in one JVM, one test here
for each of its checks."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.interop.test_java import HERE, jars

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CHECKS = [
    *(f"share-{assignor}" for assignor in ("uniform", "range")),
    "crash",
    "static",
    "pattern",
    "refused",
    "growth",
    "upgrade",
    "downgrade",
    "admin",
    "configs",
]


@pytest.fixture(scope="module")
def report(quick_groups: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    program = str(HERE / "ConsumerGroups.java")
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", program, quick_groups],
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_client_works_in_consumer_groups(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
