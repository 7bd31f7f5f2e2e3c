"""The AWS SDK for Java: java/Kinesis.java in one JVM, one test here for all of its checks.

Needs `java` 17; the SDK's jars come from `$AWS_SDK_LIBS`, or once through Maven into a cache folder.
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
    "create-and-describe",
    "put-and-get",
    "bytes-of-every-value",
    "list-shards",
    "errors",
    "async-put-and-get",
    "subscribe",
    "subscribe-positions",
    "subscribe-goes-on",
    "subscribe-split",
    "subscribe-twice",
    "subscribe-deleted-stream",
    "subscribe-errors",
    "subscribe-cancel",
    "five-consumers",
    "large-records",
    "json-put-and-get",
    "json-errors",
    "json-subscribe",
]


def jars() -> Path:
    """The folder with the SDK and what it needs."""
    if libs := os.environ.get("AWS_SDK_LIBS"):
        return Path(libs)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    folder = cache / "aws-sdk-java-2.52.0"
    if not folder.exists():
        if shutil.which("mvn") is None:
            pytest.skip("needs Maven (mvn) to fetch the AWS SDK for Java, or AWS_SDK_LIBS with its jars")
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
                pytest.skip(f"Maven could not fetch the AWS SDK for Java: {fetched.stdout[-500:]}")
            try:
                os.replace(f"{scratch}/jars", folder)  # whole or not at all
            except OSError:
                if not folder.exists():  # another test process was first
                    raise
    return folder


@pytest.fixture(scope="module")
def report(kinesis_url: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    run = subprocess.run(
        ["java", *quick, "-cp", f"{jars()}/*", str(HERE / "Kinesis.java"), kinesis_url],
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


def test_the_java_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
