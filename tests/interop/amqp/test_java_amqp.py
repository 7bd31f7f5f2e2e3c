"""RabbitMQ's own Java client: java/Amqp.java in one JVM, one test here for all of its checks.

Needs `java` 17; the client's jars come from `$RABBITMQ_LIBS`, or once through Maven into a cache folder.
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
    "publish-with-confirms",
    "confirm-listener",
    "returns",
    "consume-and-ack",
    "prefetch",
    "requeue",
    "exchange-to-exchange",
    "headers-of-every-type",
    "large-body",
    "priorities",
    "dead-letters",
    "direct-reply-to",
    "rpc",
    "transaction",
    "cancel-notification",
    "channel-error",
    "single-active-consumer",
    "stream",
    "topology-recovery",
]


def jars() -> Path:
    """The folder with the Java and the JMS client and what they need."""
    if libs := os.environ.get("RABBITMQ_LIBS"):
        return Path(libs)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    folder = cache / "amqp-client-5.35.0-jms-3.7.0"
    if not folder.exists():
        if shutil.which("mvn") is None:
            pytest.skip("needs Maven (mvn) to fetch RabbitMQ's Java client, or RABBITMQ_LIBS with its jars")
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
                pytest.skip(f"Maven could not fetch RabbitMQ's Java client: {fetched.stdout[-500:]}")
            try:
                os.replace(f"{scratch}/jars", folder)  # whole or not at all
            except OSError:
                if not folder.exists():  # another test process was first
                    raise
    return folder


def run_checks(program: str, url: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 (java)")
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    run = subprocess.run(
        ["java", *quick, "-cp", f"{jars()}/*", str(HERE / program), url.rstrip("/")],  # with a slash the vhost would be ""
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [line.removeprefix("=> ") for line in run.stdout.splitlines() if line.startswith("=> ")]
    assert lines, run.stdout + run.stderr
    return {line.split(" ", 2)[1].rstrip(":"): line for line in lines}


@pytest.fixture(scope="module")
def report(broker) -> dict[str, str]:
    return run_checks("Amqp.java", broker.url)


def test_the_java_client_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
