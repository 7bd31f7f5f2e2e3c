"""What is secret never reaches the browser unless somebody asks for it: looked for in every answer and every message of the
WebSocket, on every page that could show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.opened import CHROMIUM, a_page, with_console
from tests.console.places import opened
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

TOKEN, ACCESS, PASSWORD = "t0p-secret-header-value", "AKIDPLAYWRIGHT:s3cr3t-of-kinesis", "p4ssw0rd-of-ann"
PAGES = (
    "/",
    "/routes",
    "/routes/hook",
    "/routes/hook?tab=definition",
    "/routes/hook?tab=attempts",
    "/routes/hook?tab=secrets",
    "/settings",
    "/settings?filter=kinesis",
    "/audit",
    "/health?level=debug",
    "/find?q=hook",
    "/topics/headrace.audit?tab=messages",
)


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    settings = {"headrace.webhooks.allow": "127.0.0.0/8", "headrace.audit.enable": True, "kinesis.credentials": ACCESS}
    with with_console(**settings) as started:
        yield started


class Received:
    """Everything that a page gets."""

    def __init__(self, page: Any) -> None:
        self.pieces: list[str] = []
        page.on("websocket", lambda socket: socket.on("framereceived", self._keep))
        self._page = page

    def _keep(self, payload: Any) -> None:
        self.pieces.append(payload if isinstance(payload, str) else bytes(payload).decode("utf-8", "replace"))

    def open(self, path: str) -> None:
        opened(self._page, path)
        self.pieces.append(self._page.request.get(path).text())
        self.pieces.append(self._page.content())

    def has(self, secret: str) -> bool:
        return any(secret in piece for piece in self.pieces)


def test_secrets_are_in_nothing_that_the_browser_gets(browser: Any, server: HeadraceServer) -> None:
    v1 = V1(server)
    v1.publish("orders", {"total": 1})
    destination = {
        "type": "webhook",
        "url": "http://127.0.0.1:9/hook",
        "headers": {"Authorization": TOKEN},
        "first_pause_s": 3600,
    }
    made = v1.ask("PUT", "/v1/routes/hook", {"topic": "orders", "destination": destination})
    assert made.status == 201, made
    secret = made.body["secret"]
    body = {"password": PASSWORD, "tags": "administrator"}
    assert v1.ask("PUT", "/api/users/ann", body, user="guest:guest").status == 201
    with a_page(browser, server) as page:
        received = Received(page)
        for path in PAGES:
            received.open(path)
        assert received.has("hook"), "nothing was looked at"
        assert sum(len(piece) for piece in received.pieces if piece.startswith(("0", "2", "4"))) > 0, "no message was seen"
        found = [name for name in (secret, TOKEN, ACCESS, ACCESS.partition(":")[2], PASSWORD) if received.has(name)]
        assert found == []
        opened(page, "/routes/hook?tab=secrets")
        page.get_by_role("button", name="Show secrets").click()
        page.get_by_text(secret).wait_for()  # and this is how it looks when somebody asked


def test_the_login_is_kept_in_the_console_and_not_in_the_browser(browser: Any, server: HeadraceServer) -> None:
    body = {"password": PASSWORD, "tags": "administrator"}
    assert V1(server).ask("PUT", "/api/users/ann", body, user="guest:guest").status in (201, 204)
    with a_page(browser, server) as page:
        received = Received(page)
        page.goto("/login")
        page.get_by_label("User").fill("ann")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        for path in ("/", "/topics", "/settings"):
            received.open(path)
        kept = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        cookies = str(page.context.cookies())
        assert not received.has(PASSWORD)
        assert PASSWORD not in kept
        assert PASSWORD not in cookies
        assert all(cookie["httpOnly"] for cookie in page.context.cookies())
        page.context.clear_cookies()
