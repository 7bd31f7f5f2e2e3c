"""`headrace demo` without Spark: every protocol is spoken, everything ends, and it can be started again."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.management import Management
from headrace.client.routes import RoutesClient
from headrace.testing import wait_until

pytestmark = pytest.mark.timeout(180)
PATIENCE_S = 90
ANYWHERE = [part for name in ("kafka", "amqp", "kinesis", "http") for part in (f"--{name}", "127.0.0.1:0")]


class Demo:
    def __init__(self, data: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "demo", "--data", str(data), "--no-spark", "--json", *ANYWHERE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"HEADRACE_CONSOLE": "off"},
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        said: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while line := self._lines.get(timeout=PATIENCE_S):
            assert time.monotonic() < deadline, said
            said.append(json.loads(line))
            if wanted(said[-1]):
                return said[-1]
        raise AssertionError(f"it ended before that: {said}")

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def call(*arguments: str) -> Demo:
        started.append(Demo(tmp_path / "data", *arguments))
        return started[-1]

    yield call
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(60)


def test_every_protocol_is_spoken_and_a_second_demo_goes_on_in_the_same_folder(demo: Callable[..., Demo]) -> None:
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


def test_what_somebody_deletes_while_it_runs_is_made_again(demo: Callable[..., Demo]) -> None:
    running = demo()
    server = running.until(lambda line: "server" in line)["server"]
    running.until(lambda line: line.get("protocols", {}).get("amqp", {}).get("packed", 0) > 0)
    with Management(server["http"]) as api:
        api.delete_exchange("/", "demo.orders")
        wait_until(
            lambda: any(one.name == "demo.orders" for one in api.exchanges("/")), timeout_s=60, what="the exchange to be back"
        )
    assert running.end(signal.SIGTERM) == (143, "")
