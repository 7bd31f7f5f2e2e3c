"""rabbitmq/amqp091-go: the program in go/ built once, one test here for all of its checks. Needs `go`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.checks import run_checks
from tests.interop.go_programs import built

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).with_name("go")
CHECKS = [
    "publish-with-confirms",
    "deferred-confirms",
    "returns",
    "consume-and-ack",
    "prefetch",
    "nack-and-requeue",
    "large-body",
    "headers-of-every-type",
    "exchange-to-exchange",
    "dead-letters",
    "transaction",
    "cancel-notification",
    "channel-error",
    "connection-error",
    "stream",
    "many-channels",
]


@pytest.fixture(scope="module")
def report(broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every check's line by the check's name."""
    return run_checks([built(HERE, tmp_path_factory.mktemp("go"), "amqp091-go"), broker.url])


def test_amqp091_go_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
