"""Apache Kafka's own Java client: java/Interop.java in one JVM, one test here for each of its checks."""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import KAFKA

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module")
def report(bootstrap: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks(KAFKA.command("Interop.java", bootstrap))


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_client_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
