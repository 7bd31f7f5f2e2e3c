"""axe-core finds nothing serious or critical on any page, light or dark, nor in a dialog or on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.axe import script, severe
from tests.console.opened import CHROMIUM, a_page
from tests.console.places import BEHIND, LISTS, STILL, TABS, WRONG, opened

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(300),
]

TO_DARK = (
    "() => { Quasar.Dark.set(true); return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); }"
)
DIALOGS = (
    ("/topics", "New topic"),
    ("/queues", "New queue"),
    ("/exchanges", "New exchange"),
    ("/streams", "New stream"),
    ("/routes", "New route"),
)


@pytest.fixture(scope="module")
def axe() -> str:
    return script()


def looked_at(page: Any, axe: str, where: str) -> list[str]:
    """Everything in the light; in the dark what depends on it."""
    page.add_style_tag(content=STILL)
    found = [f"{where} light: {one}" for one in severe(page, axe)]
    page.evaluate(TO_DARK)
    return found + [f"{where} dark: {one}" for one in severe(page, axe, "color-contrast")]


@pytest.mark.parametrize("paths", [LISTS, BEHIND, TABS, WRONG], ids=["lists", "behind", "tabs", "wrong"])
def test_every_page_can_be_used_by_all(busy_server: HeadraceServer, browser: Any, axe: str, paths: tuple[str, ...]) -> None:
    found: list[str] = []
    with a_page(browser, busy_server) as page:
        for path in paths:
            opened(page, path)
            found += looked_at(page, axe, path)
    assert found == []


def test_dialogs_can_be_used_by_all(busy_server: HeadraceServer, browser: Any, axe: str) -> None:
    found: list[str] = []
    with a_page(browser, busy_server) as page:
        for path, button in DIALOGS:
            opened(page, path)
            page.get_by_role("button", name=button).click()
            page.get_by_role("dialog", name=button).wait_for()
            found += looked_at(page, axe, f"{button} on {path}")
    assert found == []


def test_a_phone_and_the_login_can_be_used_by_all(busy_server: HeadraceServer, browser: Any, axe: str) -> None:
    found: list[str] = []
    with a_page(browser, busy_server, width=390) as page:
        for path in ("/", "/topics", "/connections", "/login"):
            opened(page, path)
            found += looked_at(page, axe, path)
        opened(page, "/topics")
        page.get_by_role("button", name="Navigation").click()
        page.get_by_role("navigation", name="Pages").wait_for()
        found += looked_at(page, axe, "the navigation")
    assert found == []
