"""Logging in, where the server does not take just anybody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.opened import CHROMIUM, a_page, with_console
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

PASSWORD, LATER = "correct horse battery", "another one entirely"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    """Takes ann, an administrator, and bob, who may look at nothing; guest is gone."""
    with with_console() as started:
        v1 = V1(started)
        assert v1.ask("POST", "/v1/topics", {"name": "orders"}).status == 201
        for name, tags in (("ann", "administrator"), ("bob", "")):
            body = {"password": PASSWORD, "tags": tags}
            assert v1.ask("PUT", f"/api/users/{name}", body, user="guest:guest").status in (201, 204)
        every = {"configure": ".*", "write": ".*", "read": ".*"}
        assert v1.ask("PUT", "/api/permissions/%2F/ann", every, user="guest:guest").status in (201, 204)
        assert v1.ask("DELETE", "/api/users/guest", user=f"ann:{PASSWORD}").status == 204
        yield started


def log_in(page: Any, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_label("Password").press("Enter")


def test_nobody_sees_anything_before_logging_in_and_everybody_comes_to_where_they_wanted(
    browser: Any, server: HeadraceServer
) -> None:
    with a_page(browser, server) as page:
        for path in ("/", "/topics?filter=ord", "/routes/x", "/settings", "/find?q=orders"):
            page.goto(path)
            page.get_by_role("heading", name="Log in to Headrace").wait_for()
            assert "orders" not in page.content().replace("filter%3Dord", "").replace("q%3Dorders", "")
        page.goto("/topics?filter=ord")
        page.wait_for_url("**/login?to=%2Ftopics%3Ffilter%3Dord")
        log_in(page, "ann", "wrong")
        page.get_by_role("alert").get_by_text("Wrong name or password").wait_for()
        log_in(page, "ann", PASSWORD)
        page.wait_for_url("**/topics?filter=ord")
        page.get_by_role("link", name="orders").wait_for()
        page.get_by_role("button", name="ann").click()
        page.get_by_text("Log out").click()
        page.wait_for_url("**/login")
        page.goto("/topics")
        page.get_by_role("heading", name="Log in to Headrace").wait_for()


def test_a_password_that_no_longer_holds_leads_back_to_the_login(browser: Any, server: HeadraceServer) -> None:
    with a_page(browser, server) as page:
        page.goto("/topics")
        log_in(page, "ann", PASSWORD)
        page.get_by_role("link", name="orders").wait_for()
        body = {"password": LATER, "tags": "administrator"}
        v1 = V1(server)
        assert v1.ask("PUT", "/api/users/ann", body, user=f"ann:{PASSWORD}").status in (201, 204)
        page.get_by_role("heading", name="Log in to Headrace").wait_for()
        log_in(page, "ann", LATER)
        page.get_by_role("link", name="orders").wait_for()
        body["password"] = PASSWORD
        assert v1.ask("PUT", "/api/users/ann", body, user=f"ann:{LATER}").status in (201, 204)


# Whatever the page has to say waits until it is connected, each event for itself.
CONNECTED_LATE = """
let connected = false;
Object.defineProperty(window, 'did_handshake', {
  get: () => connected,
  set: is => { if (is) setTimeout(() => { connected = true; }, 150 + Math.random() * 10); else connected = false; },
});
"""


def test_who_types_faster_than_the_page_connects_is_let_in(browser: Any, server: HeadraceServer) -> None:
    with a_page(browser, server) as page:
        page.add_init_script(CONNECTED_LATE)
        for _ in range(8):
            page.goto("/login", connected=False)
            log_in(page, "ann", PASSWORD)
            page.get_by_role("heading", name="Overview").wait_for()
            page.context.clear_cookies()


@pytest.mark.parametrize("to", ["//evil.example/", "https://evil.example/", "/\\evil.example/"])
def test_the_login_leads_to_no_other_site(browser: Any, server: HeadraceServer, to: str) -> None:
    with a_page(browser, server) as page:
        page.goto(f"/login?to={to}")
        log_in(page, "ann", PASSWORD)
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.url.startswith(server.listeners["console"])
        page.context.clear_cookies()
