"""Transactions with Apache Kafka's own Java client: java/Transactions.java in one JVM, one test here for each of its checks."""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import KAFKA

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CHECKS = ["committed-and-aborted", "fencing", "copy", "aborted-copy", "admin"]


@pytest.fixture(scope="module")
def report(bootstrap: str) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks(KAFKA.command("Transactions.java", bootstrap))


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_clients_transactions_work(check, report):
    assert report.get(check) == f"ok {check}"
