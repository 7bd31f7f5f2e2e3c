"""Every page in Chromium, against a server that all protocols are spoken to meanwhile; and records that mean harm.

Pages are those of the navigation, one of each kind behind them, and their tabs. A page passes if it has its heading, fits into
the window on a desk and on a phone, has no alert, no error in the browser's console, no dialog, and sends no request to
elsewhere. HEADRACE_SCREENSHOTS names a folder where pictures of each are kept: light, dark and on a phone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.console.busy import until
from tests.console.opened import CHROMIUM, a_page
from tests.console.places import BEHIND, LISTS, STILL, TABS, opened, picture_folder, picture_name
from tests.http.v1.asking import V1

from headrace.client.kafka import Cluster, Producer
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.record.event import Event
from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(300),
]

DESK, PHONE = 1280, 390
# The navigation, on a phone; behind a dialog it stays as it was
FOLDED = """() => document.querySelector('.q-dialog__inner')
    || document.querySelector('.q-drawer').getBoundingClientRect().right <= 1"""
NAVIGATION = ".q-drawer a[href]"
# Tables that would have to be scrolled sideways, and labels of fields that end in dots; in a dialog, if there is one
CUT_OFF = """() => [...(document.querySelector('.q-dialog__inner') || document)
    .querySelectorAll('.q-table__middle, .q-field__label')]
    .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1).map(each => each.textContent.slice(0, 60))"""

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


@pytest.fixture
def server(busy_server: HeadraceServer) -> HeadraceServer:
    return busy_server


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture_folder(tmp_path_factory)


def shown(page: Any, path: str) -> str:
    """The text of a page once its parts are there."""
    page.set_viewport_size({"width": DESK, "height": 900})
    opened(page, path)
    text = str(page.inner_text("body"))
    assert [each for each in page.locator("[role=alert]").all_inner_texts() if each.strip()] == [], text
    return text


def fits(page: Any, folder: Path, path: str) -> None:
    """On a desk, in the dark and on a phone; with a picture of each."""
    name = picture_name(path)
    page.add_style_tag(content=STILL)
    until(page, lambda: not page.evaluate(CUT_OFF), f"everything on {path} to be seen")
    page.screenshot(path=folder / f"{name}.png")
    page.evaluate("() => Quasar.Dark.set(true)")
    until(page, lambda: not wider_than_the_window(page), f"{path} to fit into {DESK}")
    page.screenshot(path=folder / f"{name}-dark.png")
    page.evaluate("() => Quasar.Dark.set(false)")
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.wait_for_function(FOLDED)
    until(page, lambda: not wider_than_the_window(page), f"{path} to fit into {PHONE}")
    until(page, lambda: not page.evaluate(CUT_OFF), f"everything on {path} to be seen on a phone")
    page.screenshot(path=folder / f"{name}-phone.png")


def test_the_navigation_has_every_page(server: HeadraceServer, browser: Any) -> None:
    with a_page(browser, server, DESK) as page:
        shown(page, "/")
        page.wait_for_selector(NAVIGATION, state="attached")
        assert [str(link.get_attribute("href")) for link in page.locator(NAVIGATION).all()] == list(LISTS)


@pytest.mark.parametrize("paths", [LISTS, BEHIND, TABS], ids=["lists", "behind", "tabs"])
def test_every_page_opens_and_fits(server: HeadraceServer, browser: Any, pictures: Path, paths: tuple[str, ...]) -> None:
    with a_page(browser, server, DESK) as page:
        for path in paths:
            text = shown(page, path)
            if path in BEHIND:
                assert path.rpartition("/")[2] in text
            fits(page, pictures, path)


def wider_than_the_window(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"))


def test_the_overview_moves_by_itself(server: HeadraceServer, browser: Any) -> None:
    with a_page(browser, server) as page:
        shown(page, "/")
        until(page, lambda: "Takes writes" in page.inner_text("body"), "the first answer")
        for protocol in ("Kafka", "AMQP", "Kinesis"):
            until(page, lambda: requests_of(page, protocol) > 0, protocol)  # noqa: B023
        before = page.inner_text("body")
        until(page, lambda: page.inner_text("body") != before, "something to change")


def requests_of(page: Any, protocol: str) -> float:
    """A second."""
    row = page.locator("tr", has=page.locator("td", has_text=re.compile(f"^{protocol}$", re.IGNORECASE)))
    found = re.match(r"[0-9.]+", row.first.locator("td").nth(3).inner_text()) if row.count() else None
    return float(found[0]) if found else 0.0


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
    with a_page(browser, server, DESK) as page:
        shown(page, f"/topics/{topic}?tab=messages&from=earliest")
        until(page, lambda: "<script>alert('script')</script>" in page.inner_text("body"), "the records")
        assert page.locator("img[src=x]").count() == 0
        assert page.locator("script", has_text="alert('script')").count() == 0
        assert len(page.content()) < LONG_BYTES, "a long record is shown in full"
        fits(page, pictures, "/topics/hostile")


def test_hostile_names_are_harmless_text(server: HeadraceServer, browser: Any) -> None:
    """Queues and exchanges take any name; topics, groups and streams do not."""
    name = "<img src=x onerror=alert(1)>\u202e/?#%2F"
    v1 = V1(server)
    assert v1.ask("PUT", f"/api/queues/%2F/{quote(name, safe='')}", {"durable": True}, user="guest:guest").status == 201
    try:
        with a_page(browser, server) as page:
            for path in ("/queues", "/graph", f"/queues/%2F/{quote(name, safe='')}"):
                shown(page, path)
                until(page, lambda: "onerror=alert(1)" in page.content(), f"the name on {path}")
                assert page.locator("img[src=x]").count() == 0
    finally:
        v1.ask("DELETE", f"/api/queues/%2F/{quote(name, safe='')}", user="guest:guest")
