"""RabbitMQ's JMS client, queues and topics: java/Jms.java in one JVM, one test here for all of its checks.

Selectors on topics need the exchange type of RabbitMQ's rabbitmq_jms_topic_exchange plugin; they are not used.
"""

from __future__ import annotations

import pytest
from tests.interop.checks import run_checks
from tests.interop.jars import RABBITMQ

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CHECKS = [
    "point-to-point",
    "competing-receivers",
    "message-types",
    "client-acknowledge",
    "transacted-session",
    "request-and-reply",
    "time-to-live",
    "browse",
    "topic",
    "topic-wildcards",
    "durable-subscription",
    "amqp-destination",
]


@pytest.fixture(scope="module")
def report(broker) -> dict[str, str]:
    return run_checks(RABBITMQ.command("Jms.java", broker.url.rstrip("/")))  # with a slash the vhost would be ""


def test_the_jms_client_passes_every_check(report):
    assert report == {check: f"ok {check}" for check in CHECKS}
