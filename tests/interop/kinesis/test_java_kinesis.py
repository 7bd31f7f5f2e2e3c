"""The AWS SDK for Java: java/Kinesis.java in one JVM, one test here for all of its checks."""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import AWS_SDK

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module")
def report(kinesis_url: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks(AWS_SDK.command("Kinesis.java", kinesis_url))


def test_the_java_sdk_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
