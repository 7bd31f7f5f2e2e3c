"""`headrace demo` without Spark: every protocol is spoken, everything ends, and it can be started again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.demo_process import Demo, demos

from headrace.client.management import Management
from headrace.client.routes import RoutesClient
from headrace.testing import wait_until

pytestmark = pytest.mark.timeout(180)
PATIENCE_S = 90


class JsonDemo:
    """Without Spark and the console; what it says is JSON."""

    def __init__(self, demo: Demo) -> None:
        self.process = demo.process
        self.end = demo.end
        self._demo = demo

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        return json.loads(self._demo.until(lambda line: wanted(json.loads(line))))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., JsonDemo]]:
    with demos(tmp_path / "data", PATIENCE_S) as call:
        yield lambda *arguments: JsonDemo(call("--no-spark", "--json", *arguments, HEADRACE_CONSOLE="off"))


def test_every_protocol_is_spoken_and_a_second_demo_goes_on_in_the_same_folder(demo: Callable[..., JsonDemo]) -> None:
    first = demo("--for", "8")
    last = first.until(lambda line: "ended" in line and line["ended"])
    assert last["events"] > 0
    assert first.process.wait(PATIENCE_S) == 0
    assert first.process.stderr is not None
    assert first.process.stderr.read() == b""

    second = demo()
    server = second.until(lambda line: "server" in line)["server"]
    spoken = second.until(lambda line: _all_spoken(line.get("protocols", {})))["protocols"]
    assert set(spoken) == {"kafka", "amqp", "kinesis", "webhooks", "multicast"}
    with Management(server["http"]) as api, RoutesClient(server["http"]) as routes:
        names = {queue.name for queue in api.queues("/")}
        assert {"demo.orders.packing", "demo.orders.review", "demo.orders.rejected", "demo.orders.log"} <= names
        wait_until(lambda: bool(api.peek_messages("/", "demo.orders.rejected", count=1)), timeout_s=60, what="a dead letter")
        ours = {route.name: route.state for route in routes.all()}
        assert ours == {"demo.orders.to-warehouse": "running", "demo.transactions.feed": "running"}
    assert second.end(signal.SIGINT) == (130, "")


def _all_spoken(protocols: dict[str, dict[str, int]]) -> bool:
    wanted = {
        "kafka": ("written", "checked"),
        "amqp": ("published", "packed"),
        "kinesis": ("put", "read"),
        "webhooks": ("received",),
        "multicast": ("heard",),
    }
    return all(protocols.get(protocol, {}).get(what, 0) > 0 for protocol, whats in wanted.items() for what in whats)


def test_what_somebody_deletes_while_it_runs_is_made_again(demo: Callable[..., JsonDemo]) -> None:
    running = demo()
    server = running.until(lambda line: "server" in line)["server"]
    running.until(lambda line: line.get("protocols", {}).get("amqp", {}).get("packed", 0) > 0)
    with Management(server["http"]) as api:
        api.delete_exchange("/", "demo.orders")
        wait_until(
            lambda: any(one.name == "demo.orders" for one in api.exchanges("/")), timeout_s=60, what="the exchange to be back"
        )
    assert running.end(signal.SIGTERM) == (143, "")
