"""Every page in Chromium, against a server that all protocols are spoken to meanwhile; and records that mean harm.

Pages are those of the navigation, as the browser sees it, and one of each kind behind them. A page passes if it has its heading,
no alert, no error in the browser's console, no dialog, and sends no request to elsewhere. HEADRACE_SCREENSHOTS names a folder
where a picture of each is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.console.busy import DEAD, EXCHANGE, GROUP, QUEUE, STREAM, TOPIC, WEBHOOK, a_busy_server
from tests.console.opened import CHROMIUM, a_browser, a_page
from tests.http.v1.asking import V1

from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.record.event import Event
from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(300),
]

PHONE = 390
HEADING = "[role=heading][aria-level='1']"
NAVIGATION = ".q-drawer a[href]"
LEAST = {"/", "/topics", "/groups", "/queues", "/exchanges", "/graph", "/dead-letters", "/streams", "/routes", "/connections"}
BEHIND = (
    f"/topics/{TOPIC}",
    f"/groups/{GROUP}",
    f"/queues/%2F/{QUEUE}",
    f"/queues/%2F/{DEAD}",
    f"/exchanges/%2F/{EXCHANGE}",
    f"/streams/{STREAM}",
    f"/routes/{WEBHOOK}",
)

SCRIPT = "<script>alert('script')</script><img src=x onerror=\"alert('img')\"><svg onload=alert('svg')>{{7*7}}${alert(1)}"
RIGHT_TO_LEFT = "\u202egnp.exe \u2066שלום\u2069 مرحبا\u202c"
LONG_BYTES = 1_000_000
HOSTILE = {
    "script": Event(b"script", SCRIPT.encode(), ((SCRIPT, SCRIPT.encode()),)),
    "long": Event(b"long", b"w" * LONG_BYTES),
    "invalid": Event(b"\xff\xfe\x00", b"\xc3\x28\xa0\xa1\xed\xa0\x80\xf8\x88\x80\x80\x80\x00\x1b[31m", (("h", b"\xff\x00"),)),
    "right": Event("\u202eyek".encode(), RIGHT_TO_LEFT.encode()),
    "nothing": Event(None, None),
    "deep": Event(b"deep", b"[" * 5_000 + b"]" * 5_000),
}


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with a_busy_server() as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as started:
        yield started


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get("HEADRACE_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def opened(page: Any, path: str) -> str:
    """The text of a page once its parts are there."""
    answer = page.goto(path)
    assert answer.status == 200, path
    page.wait_for_selector(HEADING)
    assert page.locator("[role=alert]").count() == 0, page.inner_text("body")
    return str(page.inner_text("body"))


def picture(page: Any, folder: Path, path: str, suffix: str = "") -> None:
    name = re.sub(r"[^a-z0-9]+", "-", path.lower().replace("%2f", "")).strip("-") or "overview"
    page.screenshot(path=folder / f"{name}{suffix}.png")


def in_the_navigation(page: Any) -> list[str]:
    opened(page, "/")
    page.wait_for_selector(NAVIGATION, state="attached")
    return [str(link.get_attribute("href")) for link in page.locator(NAVIGATION).all()]


@pytest.mark.parametrize("width", [1280, PHONE])
def test_every_page_of_the_navigation_opens(server: HeadraceServer, browser: Any, pictures: Path, width: int) -> None:
    with a_page(browser, server, width) as page:
        paths = in_the_navigation(page)
        assert set(paths) >= LEAST
        for path in paths:
            opened(page, path)
            assert not wider_than_the_window(page), f"{path} is wider than {width}"
            picture(page, pictures, path, "" if width != PHONE else "-phone")


@pytest.mark.parametrize("path", BEHIND)
def test_a_page_behind_the_lists_opens(server: HeadraceServer, browser: Any, pictures: Path, path: str) -> None:
    for width in (1280, PHONE):
        with a_page(browser, server, width) as page:
            text = opened(page, path)
            assert path.rpartition("/")[2] in text
            assert not wider_than_the_window(page), f"{path} is wider than {width}"
            picture(page, pictures, path, "" if width != PHONE else "-phone")


def wider_than_the_window(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"))


def test_links_of_the_navigation_lead_where_they_say_without_a_reload_of_the_address(
    server: HeadraceServer, browser: Any
) -> None:
    with a_page(browser, server) as page:
        for path in in_the_navigation(page):
            page.locator(f".q-drawer a[href='{path}']").click()
            page.wait_for_url(f"**{path}")
            page.wait_for_selector(HEADING)


def test_the_overview_moves_by_itself(server: HeadraceServer, browser: Any) -> None:
    with a_page(browser, server) as page:
        opened(page, "/")
        wait_until(lambda: "Takes writes" in page.inner_text("body"), timeout_s=20, what="the first answer")
        for protocol in ("kafka", "amqp", "kinesis"):
            wait_until(lambda: rate_of(page, protocol) not in ("", "0 B/s"), timeout_s=30, what=protocol)  # noqa: B023
        before = page.inner_text("body")
        wait_until(lambda: page.inner_text("body") != before, timeout_s=20, what="something to change")


def rate_of(page: Any, protocol: str) -> str:
    """What comes in over it."""
    row = page.locator("tr", has=page.locator("td", has_text=re.compile(f"^{protocol}$", re.IGNORECASE)))
    return str(row.first.locator("td").nth(1).inner_text()) if row.count() else ""


def test_hostile_records_are_harmless_text(server: HeadraceServer, browser: Any, pictures: Path) -> None:
    topic = "hostile"
    cluster = Cluster(server.kafka)
    try:
        create_topic(cluster, topic, configs={"max.message.bytes": str(2 * LONG_BYTES)}, partitions=1)
        wait_until_led(cluster, topic)
        producer = Producer(cluster)
        for event in HOSTILE.values():
            producer.send(topic, event)
            producer.flush()
    finally:
        cluster.close()
    for width in (1280, PHONE):
        with a_page(browser, server, width) as page:
            opened(page, f"/topics/{topic}?tab=messages&from=earliest")
            wait_until(lambda: "<script>alert('script')</script>" in page.inner_text("body"), timeout_s=30, what="the records")  # noqa: B023
            assert page.locator("img[src=x]").count() == 0
            assert page.locator("script", has_text="alert('script')").count() == 0
            assert len(page.content()) < 4 * LONG_BYTES, "a long record is shown in full many times"
            assert page.evaluate("1 + 1") == 2, "the page does not answer any more"
            assert not wider_than_the_window(page)
            picture(page, pictures, "/topics/hostile", "" if width != PHONE else "-phone")


def test_hostile_names_are_harmless_text(server: HeadraceServer, browser: Any) -> None:
    """Queues and exchanges take any name; topics, groups and streams do not."""
    name = "<img src=x onerror=alert(1)>\u202e/?#%2F"
    v1 = V1(server)
    assert v1.ask("PUT", f"/api/queues/%2F/{quote(name, safe='')}", {"durable": True}, user="guest:guest").status == 201
    try:
        with a_page(browser, server) as page:
            for path in ("/queues", "/graph", f"/queues/%2F/{quote(name, safe='')}"):
                opened(page, path)
                wait_until(lambda: "onerror=alert(1)" in page.content(), timeout_s=20, what=f"the name on {path}")  # noqa: B023
                assert page.locator("img[src=x]").count() == 0
    finally:
        v1.ask("DELETE", f"/api/queues/%2F/{quote(name, safe='')}", user="guest:guest")
