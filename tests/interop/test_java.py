"""Apache Kafka's own Java client: java/Interop.java in one JVM, one test here for each of its checks.

Needs `java` 17; the client's jars come from `$KAFKA_LIBS`, or once through Maven into a cache folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("java")
CHECKS = [
    *(f"round-trip-{compression}" for compression in ("none", "gzip", "snappy", "lz4", "zstd")),
    *(f"acks-{acks}" for acks in ("0", "1", "all")),
    "order",
    "large-record",
    "too-large",
    "seek-and-times",
    "long-poll",
    "auto-create",
    "recreated-topic",
    *(f"group-{assignor}Assignor" for assignor in ("Range", "RoundRobin", "Sticky", "CooperativeSticky")),
    "group-crash",
    "group-static",
    "group-resume",
    "admin-topics",
    "admin-configs",
    "admin-records",
    "admin-groups",
    "admin-cluster",
    "admin-quotas",
    "group-configs",
    "telemetry",
]


def jars() -> Path:
    """The folder with the Java client and what it needs."""
    if libs := os.environ.get("KAFKA_LIBS"):
        return Path(libs)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    folder = cache / "kafka-clients-4.3.1"
    if not folder.exists():
        if shutil.which("mvn") is None:
            pytest.skip("needs Maven (mvn) to fetch Apache Kafka's Java client, or KAFKA_LIBS with its jars")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            shutil.copy(HERE / "pom.xml", scratch)
            fetched = subprocess.run(
                ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/jars"],
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=240,
            )
            if fetched.returncode != 0:
                pytest.skip(f"Maven could not fetch Apache Kafka's Java client: {fetched.stdout[-500:]}")
            os.replace(f"{scratch}/jars", folder)  # whole or not at all
    return folder


@pytest.fixture(scope="module")
def report(bootstrap: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", str(HERE / "Interop.java"), bootstrap],
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_client_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
