"""A server with its console that something goes on in: the bank and the shop of `headrace demo`, over every protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.console.opened import with_console

from headrace.cli.demo_feeds.amqp import OrdersOverAmqp, PackingHall
from headrace.cli.demo_feeds.background import Background
from headrace.cli.demo_feeds.kafka import FraudCheck
from headrace.cli.demo_feeds.kinesis import ClicksOverKinesis
from headrace.cli.demo_feeds.multicast import TransactionsOverMulticast
from headrace.cli.demo_feeds.webhooks import WarehouseWebhook
from headrace.spark.runner.feeding import BackgroundFeed
from headrace.testing import HeadraceServer, wait_until

TOPIC, GROUP, STREAM = "bank.transactions", "demo.fraud-check", "demo.clicks"
QUEUE, DEAD, EXCHANGE = "demo.orders.packing", "demo.orders.rejected", "demo.orders"
LOOK_MS = 200
WEBHOOK, FEED = "demo.orders.to-warehouse", "demo.transactions.feed"


@contextmanager
def a_busy_server(rate: float = 10.0) -> Iterator[HeadraceServer]:
    """When it is there each protocol has been spoken, a webhook has failed and there is a dead letter."""
    hook = WarehouseWebhook()
    settings = {"headrace.webhooks.allow": hook.allowed, "headrace.audit.enable": True}
    with with_console(**settings) as server:
        amqp = urlsplit(server.amqp)
        at = f"{amqp.hostname}:{amqp.port}"
        others: list[Background] = [
            OrdersOverAmqp(at, rate),
            PackingHall(at),
            ClicksOverKinesis(server.kinesis, rate),
            TransactionsOverMulticast(server.kafka, server.http),
            FraudCheck(server.kafka),
        ]
        feeds = [BackgroundFeed(server.kafka, domain, rate) for domain in ("banking", "shop")]
        try:
            for other in others:
                other.start()
            hook.begin(server.http)
            others.append(hook)
            wait_until(lambda: _lively(others), timeout_s=60, what="every protocol to be spoken")
            yield server
        finally:
            for other in others:
                other.close()
            for feed in feeds:
                feed.close()
            for other in others:
                other.join()


def _lively(others: list[Background]) -> bool:
    done = {what for other in others for what, number in other.told().items() if number}
    return {"published", "packed", "rejected", "put", "read", "heard", "checked", "received", "failed"} <= done


def until(page: Any, condition: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    """As `wait_until`, but the browser is asked a few times a second: reading a page is work for it."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}: {page.inner_text('body')[:1000]}"
        page.wait_for_timeout(LOOK_MS)
