"""Share groups with Apache Kafka's own KafkaShareConsumer: java/Share.java in one JVM, one test here for each of its checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import KAFKA

from headrace.testing import HeadraceServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

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
    return run_checks(KAFKA.command("Share.java", short_locks.kafka), timeout_s=150)


@pytest.mark.parametrize("check", CHECKS)
def test_the_java_share_consumer_works(check, report):
    assert report.get(check) == f"ok {check}"


def test_every_check_of_the_program_is_a_test(report):
    assert set(report) == set(CHECKS)
