"""Apache Kafka's own Java client under the consumer protocol (KIP-848): java/ConsumerGroups.java in one JVM, one test here
for each of its checks."""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import KAFKA

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
    return run_checks(KAFKA.command("ConsumerGroups.java", quick_groups))


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_client_works_in_consumer_groups(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
