"""RabbitMQ's own Java client: java/Amqp.java in one JVM, one test here for all of its checks."""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import RABBITMQ

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

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


@pytest.fixture(scope="module")
def report(broker) -> dict[str, str]:
    return run_checks(RABBITMQ.command("Amqp.java", broker.url.rstrip("/")))  # with a slash the vhost would be ""


def test_the_java_client_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
