"""The page /routes in a browser: every route with what it does, as text, and kept up to date."""

from __future__ import annotations

import json
import shutil
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.routes import RoutesClient
from headrace.testing import HeadraceServer, wait_until

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
HOSTILE = "text != '<img src=x onerror=\"document.title=1\"><script>document.title=2</script>'"


@pytest.fixture
def page() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(20_000)
        yield page
        browser.close()


def test_the_page_shows_every_route_as_text_and_follows_it(headrace_shared_server: HeadraceServer, page: Any) -> None:
    server = headrace_shared_server
    name = f"page-{uuid.uuid4().hex[:8]}"
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with RoutesClient(server.http) as routes:
        routes.put(name, topic=name, destination={"type": "topic", "topic": f"{name}-to"}, filter=HOSTILE)
        try:
            page.goto(f"{server.http}/routes")
            row = page.locator("tr", has=page.get_by_text(name, exact=True))
            row.get_by_text("waiting").wait_for()
            assert row.get_by_text(f"there is no topic '{name}'").count() == 1
            assert row.locator("code").inner_text() == HOSTILE
            assert row.get_by_text(f"topic {name}-to").count() == 1
            body = json.dumps({"events": [{"value": number} for number in range(7)]}).encode()
            request = urllib.request.Request(
                f"{server.http}/v1/topics/{name}/events", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=20).close()
            row.get_by_text("running").wait_for()
            wait_until(lambda: row.locator("td").nth(7).inner_text() == "7", timeout_s=20, what="seven deliveries")
            routes.pause(name)
            row.get_by_text("paused").wait_for()
        finally:
            routes.delete(name)
        row.wait_for(state="detached")
    assert page.title() == "Routes · Headrace"
    assert page.locator("img").count() == 0
    assert complaints == []
