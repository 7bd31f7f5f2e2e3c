"""The first page: what it says on a server with nothing on it, and where everything is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.opened import CHROMIUM, with_console
from tests.http.v1.asking import V1

from headrace.console.parts.first_steps import commands, snippets
from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]


@pytest.fixture
def server() -> Iterator[HeadraceServer]:
    with with_console() as started:
        yield started


def test_an_empty_server_says_what_to_do_first_until_somebody_has(page: Any, v1: V1) -> None:
    page.goto("/")
    heading = page.get_by_role("heading", name="Nothing here yet. First steps, in a terminal:")
    heading.wait_for()
    page.get_by_text("No group reads anything yet").wait_for()
    listeners = v1.get("/v1/overview")["listeners"]
    shown = page.inner_text("body")
    for protocol in ("kafka", "amqp", "kinesis", "http"):
        assert shown.count(listeners[protocol]) >= 2  # in its lines of code, and in the table of protocols
    page.goto("/topics")
    none_yet = page.get_by_text("None yet but the server's own")
    none_yet.wait_for()
    assert v1.ask("POST", "/v1/topics", {"name": "orders"}).status == 201
    none_yet.wait_for(state="hidden")
    page.goto("/")
    page.get_by_text("Takes writes").wait_for()
    heading.wait_for(state="hidden")


def test_the_first_steps_work_as_they_stand(server: HeadraceServer, v1: V1) -> None:
    at = v1.get("/v1/overview")["listeners"]
    made, written, _ = commands(at).splitlines()  # the third one reads on for ever
    for line in (made, written):
        subprocess.run([sys.executable, "-m", *line.split()], check=True, timeout=60, capture_output=True)
    kafka, amqp, kinesis, http = snippets(at).values()
    for code in (kafka, amqp, kinesis):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)
    subprocess.run(["sh", "-c", http.replace("curl", "curl --fail --silent")], check=True, timeout=60, capture_output=True)
    assert [event["value"] for event in v1.get("/v1/topics/orders/events?from=earliest")["events"]] == [
        "hello",
        "world",
        "hello",
        "hello",
    ]
    wait_until(lambda: v1.get("/v1/queues?name=work")["items"][0]["messages_ready"] == 1, what="the message in the queue")
    assert len(v1.get("/v1/topics/rides/events?from=earliest")["events"]) == 1


def test_the_usual_addresses_are_not_repeated_on_the_command_line() -> None:
    usual = {"kafka": "127.0.0.1:9092", "http": "127.0.0.1:8080"}
    assert commands(usual).splitlines()[0] == "headrace topic create orders"
    assert "--server 127.0.0.1:1" in commands({"kafka": "127.0.0.1:1"})
    assert [title.split()[0] for title in snippets(usual)] == ["Kafka", "HTTP"]
