"""Share groups with Apache Kafka's own KafkaShareConsumer: java/Share.java in one JVM, one test here for each of its checks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.test_java import jars

from headrace.testing import HeadraceServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).with_name("java") / "Share.java"
CHECKS = [
    "pool",
    "acknowledge",
    "delivery-limit",
    "lock-timeout",
    "renew",
    "record-limit",
    "begin-latest",
    "read-committed",
    "close-releases",
    "admin",
    "dead-letters",
]


@pytest.fixture(scope="module")
def short_locks() -> Iterator[HeadraceServer]:
    """A server that lets groups have locks of one second."""
    with HeadraceServer(settings={"group.share.min.record.lock.duration.ms": 1000}) as server:
        yield server


@pytest.fixture(scope="module")
def report(short_locks: HeadraceServer) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", str(PROGRAM), short_locks.kafka],
        capture_output=True,
        text=True,
        timeout=150,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_share_consumer_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
