"""What people do with the console, done through its pages while every protocol is spoken to the server: create, produce, tail,
search, reset, retry a dead letter, replay a webhook."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.busy import DEAD, TOPIC, WEBHOOK, until
from tests.console.opened import CHROMIUM, a_page, wait_for_address
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

EVENTS = ".headrace-events:visible tbody tr"


@pytest.fixture
def page(browser: Any, busy_server: HeadraceServer) -> Iterator[Any]:
    with a_page(browser, busy_server) as opened:
        yield opened


@pytest.fixture
def v1(busy_server: HeadraceServer) -> V1:
    return V1(busy_server)


@pytest.fixture
def name() -> str:
    return f"verb-{uuid.uuid4().hex[:8]}"


def dialog(page: Any) -> Any:
    return page.locator(".q-dialog:visible .q-card")


def test_create_a_topic_and_produce_into_it(page: Any, v1: V1, name: str) -> None:
    page.goto("/topics")
    page.get_by_role("button", name="New topic").click()
    dialog(page).get_by_label("Name").fill(name)
    dialog(page).get_by_role("button", name="Create").click()
    page.get_by_label("Name contains").fill(name)
    page.get_by_role("link", name=name).click()
    page.get_by_role("tab", name="Produce").click()
    page.get_by_label("Key (empty: none)").fill("k")
    page.get_by_label("Value", exact=True).fill("written in a page")
    page.get_by_role("button", name="Send").click()
    page.get_by_text(re.compile(r"Stored in partition \d+ at offset 0")).wait_for()
    stored = v1.get(f"/v1/topics/{name}/events?from=earliest&format=text")["events"]
    assert [(event["key"], event["value"]) for event in stored] == [("k", "written in a page")]


def test_tail_what_the_bank_writes(page: Any) -> None:
    page.goto(f"/topics/{TOPIC}?tab=live")
    until(page, lambda: page.locator(EVENTS).count() > 2, "records as they come")
    before = page.locator(EVENTS).first.inner_text()
    until(page, lambda: page.locator(EVENTS).first.inner_text() != before, "another one")


def test_search_in_what_the_bank_writes(page: Any, v1: V1) -> None:
    first = v1.get(f"/v1/topics/{TOPIC}/events?from=earliest&limit=1&format=text")["events"][0]
    sought = first["value"][:60]
    page.goto(f"/topics/{TOPIC}?tab=messages&from=oldest")
    page.get_by_label("Text to find").fill(sought)
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text(re.compile(r"^[1-9][0-9,]* found in")).wait_for()
    page.get_by_role("button", name=f"Open offset {first['offset']}", exact=True).first.wait_for()
    wait_for_address(page, "q=")


def test_reset_a_group(page: Any, v1: V1, name: str) -> None:
    assert v1.ask("POST", f"/v1/groups/{name}/offsets/reset", {"topic": TOPIC, "to": "latest"}).status == 200
    page.goto(f"/groups/{name}")
    page.get_by_role("button", name="Reset offsets").click()
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("Nothing is changed yet").wait_for()
    dialog(page).get_by_role("button", name="Apply").click()
    dialog(page).get_by_text("Done:").wait_for()
    standing = v1.get(f"/v1/groups/{name}/offsets")["offsets"]
    assert {each["offset"] for each in standing} == {0}


def test_retry_a_dead_letter(page: Any, v1: V1) -> None:
    """Of the shop's orders: the packing hall takes it when it comes back."""
    path = f"/v1/dead-letters/%2F/{DEAD}"
    wait_until(lambda: v1.get(path)["messages"], timeout_s=60, what="a dead letter")
    page.goto("/dead-letters")
    page.get_by_role("link", name=DEAD).click()
    retry = page.get_by_role("button", name=re.compile(r"^Retry \d")).first
    number = (retry.get_attribute("aria-label") or "").removeprefix("Retry ")
    retry.click()
    page.get_by_text("1 message went back").wait_for()
    left = {entry["id"] for entry in v1.get(f"{path}?limit=100")["entries"]}
    assert number not in left


def test_replay_a_webhook(page: Any, v1: V1) -> None:
    path = f"/v1/routes/{WEBHOOK}"
    wait_until(lambda: v1.get(f"{path}/attempts?status=delivered")["attempts"], timeout_s=60, what="an attempt")
    page.goto(f"/routes/{WEBHOOK}?tab=attempts&status=delivered")
    page.locator("tbody tr", has_text="delivered").last.click()
    title = page.get_by_role("dialog", name=re.compile("^Attempt ")).get_by_role("heading", level=2).first.inner_text()
    event = title.rpartition(" ")[2]
    before = len(v1.get(f"{path}/attempts?event={event}")["attempts"])
    page.get_by_role("button", name="Send again").click()
    page.get_by_text("It is sent again").wait_for()
    wait_until(
        lambda: len(v1.get(f"{path}/attempts?event={event}")["attempts"]) > before, timeout_s=30, what="one more attempt"
    )
