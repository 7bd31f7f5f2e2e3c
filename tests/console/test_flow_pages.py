"""Routes, webhooks, streams and what concerns the server as a whole, in a real browser against a real server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from tests.console.opened import CHROMIUM, a_page, wait_for_address, with_console
from tests.http.v1.asking import V1

from headrace.client.kinesis.api import Entry, Kinesis
from headrace.client.kinesis.signing import Credentials
from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(240),
]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    settings = {"headrace.webhooks.allow": "127.0.0.0/8", "num.partitions": 1, "headrace.audit.enable": True}
    with with_console(**settings) as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


class Endpoint:
    """Takes webhooks, or refuses them."""

    def __init__(self) -> None:
        self.status = 500
        self.bodies: list[bytes] = []
        outer = self

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(outer.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"<p")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def button(page: Any, label: str) -> Any:
    return page.get_by_role("button", name=label, exact=True)


def tab(page: Any, label: str) -> None:
    page.get_by_role("tab", name=label).click()


def in_dialog(page: Any, label: str) -> Any:
    return page.locator(".q-dialog").get_by_label(label)


def test_a_route_is_made_tried_paused_and_deleted_by_typing_its_name(page: Any, v1: V1, name: str) -> None:
    v1.publish(name, {"total": 50, "note": HOSTILE}, {"total": 150})
    page.goto("/routes")
    button(page, "New route").click()
    in_dialog(page, "Name").first.fill(name)
    in_dialog(page, "From topic").fill(name)
    in_dialog(page, "Name of the topic or exchange, or URL").fill(f"{name}-large")
    in_dialog(page, "Filter (CEL)").fill("value.total > 100")
    button(page, "Create").click()
    page.wait_for_url(f"**/routes/{name}")
    wait_until(lambda: v1.get(f"/v1/routes/{name}")["delivered"] == 1, timeout_s=20, what="the delivery")
    page.get_by_text("topic " + name, exact=False).first.wait_for()

    tab(page, "Try filter")
    button(page, "Try").click()
    page.get_by_text("1 passed, 1 dropped, 0 failed").wait_for()
    assert page.get_by_text(HOSTILE).count() >= 1
    wait_for_address(page, "tab=trial")

    button(page, "Pause").click()
    button(page, "Resume").wait_for()
    assert v1.get(f"/v1/routes/{name}")["state"] == "paused"

    button(page, "Delete").click()
    confirm = page.locator(".q-dialog").get_by_role("button", name="Delete")
    assert confirm.is_disabled()
    in_dialog(page, "Type the name to confirm").fill(name)
    confirm.click()
    page.wait_for_url("**/routes")
    assert v1.ask("GET", f"/v1/routes/{name}").status == 404


def test_the_group_of_a_route_is_called_a_route_and_no_group_without_members(page: Any, v1: V1, name: str) -> None:
    v1.publish(name, {"total": 1})
    body = {"topic": name, "destination": {"type": "topic", "topic": f"{name}-copy"}}
    assert v1.ask("PUT", f"/v1/routes/{name}", body).status == 201
    for path in (f"/groups?filter={name}", f"/topics/{name}?tab=consumers"):
        page.goto(path)
        row = page.locator("tbody tr", has_text=f"headrace.route.{name}")
        row.wait_for()
        assert "route" in row.locator("td").nth(1).inner_text()
        assert "Empty" not in row.inner_text()


def test_a_webhook_shows_what_was_sent_and_sends_it_again(page: Any, v1: V1, name: str, endpoint: Endpoint) -> None:
    v1.publish(name, {"note": HOSTILE})
    destination = {"type": "webhook", "url": endpoint.url, "first_pause_s": 3600}
    made = v1.ask("PUT", f"/v1/routes/{name}", {"topic": name, "destination": destination})
    secret = made.body["secret"]
    wait_until(lambda: v1.get(f"/v1/routes/{name}/attempts")["attempts"], timeout_s=20, what="an attempt")
    page.goto(f"/routes/{name}?tab=attempts")
    page.locator("tbody tr", has_text="failed").click()
    dialog = page.locator(".q-dialog")
    dialog.get_by_text(HOSTILE, exact=False).wait_for()
    assert dialog.get_by_text("<p", exact=True).count() == 1
    wait_for_address(page, "attempt=")
    endpoint.status = 200
    dialog.get_by_role("button", name="Send again").click()
    wait_until(lambda: v1.get(f"/v1/routes/{name}")["delivered"] == 1, timeout_s=20, what="the delivery")
    page.locator("tbody tr", has_text="delivered").wait_for()
    assert len(endpoint.bodies) == 2

    button(page, "Send a test").click()
    page.get_by_text("The endpoint answered 200", exact=False).wait_for()
    assert secret not in page.content()
    tab(page, "Secrets")
    button(page, "Show secrets").click()
    page.get_by_text(secret).wait_for()


def test_a_stream_is_drawn_split_and_read(page: Any, server: HeadraceServer, name: str) -> None:
    kinesis = Kinesis(server.kinesis, Credentials("any", "thing"))
    kinesis.create_stream(name, shards=1)
    kinesis.put_records(name, [Entry(HOSTILE.encode(), "key-1")])
    page.goto(f"/streams?filter={name}")
    page.get_by_role("cell", name=name, exact=True).click()
    page.wait_for_url(f"**/streams/{name}")
    page.get_by_role("cell", name="shardId-000000000000").wait_for()
    button(page, "Split").click()
    in_dialog(page, "Shard").first.click()
    page.get_by_role("option", name="0 (0.0 to 100.0 %)").click()
    page.locator(".q-dialog").get_by_role("button", name="Split").click()
    page.get_by_role("cell", name="shardId-000000000002").wait_for()
    assert [shard.open for shard in kinesis.shards(name)] == [False, True, True]

    tab(page, "Records")
    page.get_by_label("Partition key").fill("key-2")
    page.get_by_label("Data", exact=True).fill("hello")
    button(page, "Put").click()
    page.get_by_text("with sequence number", exact=False).wait_for()
    page.goto(f"/streams/{name}?tab=records&shard=shardId-000000000000")
    page.get_by_text("0 (closed)").wait_for()
    button(page, "Read").click()
    page.get_by_role("cell", name=HOSTILE).wait_for()
    page.get_by_text("The shard is closed, and this is its end.").wait_for()
    kinesis.close()


def test_a_longer_retention_of_a_stream_is_a_click_and_a_shorter_one_wants_its_name(
    page: Any, server: HeadraceServer, name: str
) -> None:
    with closing(Kinesis(server.kinesis, Credentials("any", "thing"))) as kinesis:
        kinesis.create_stream(name, shards=1)
    page.goto(f"/streams/{name}")
    for hours, typed in ((72, False), (48, True)):
        button(page, "Retention").click()
        in_dialog(page, "Hours").fill(str(hours))
        dialog = page.locator(".q-dialog")
        if typed:
            in_dialog(page, f"Type {name} to confirm").wait_for()
            dialog.get_by_role("button", name="Change").click()
            dialog.get_by_text(f"Type {name} first").wait_for()
            in_dialog(page, f"Type {name} to confirm").fill(name)
        dialog.get_by_role("button", name="Change").click()
        page.get_by_text(f"Records are kept for {hours} h").wait_for()
        page.get_by_text(f"{hours // 24} d", exact=True).wait_for()


def test_storage_lists_topics_and_the_segments_of_one(page: Any, v1: V1, name: str) -> None:
    assert v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2}).status == 201
    v1.publish(name, "x", partition=0)  # nothing was ever written to the other one
    page.goto(f"/storage?filter={name}")
    page.get_by_text("Disk:", exact=False).wait_for()
    page.get_by_role("cell", name=name, exact=True).click()
    page.wait_for_url(f"**/storage/{name}**")
    page.get_by_role("cell", name="0 to 1", exact=True).wait_for()
    page.get_by_role("cell", name="disk (written now)").wait_for()


def test_a_setting_is_found_changed_and_taken_back(page: Any, v1: V1) -> None:
    page.goto("/settings?filter=log.retention.ms&dynamic=true")
    button(page, "Change log.retention.ms").click()
    in_dialog(page, "Value").fill("86400000")
    page.locator(".q-dialog").get_by_role("button", name="Save").click()
    page.get_by_text("changed since").wait_for()
    found = {one["name"]: one["value"] for one in v1.get("/v1/settings?text=log.retention.ms")["settings"]}
    assert str(found["log.retention.ms"]) == "86400000"
    button(page, "Change log.retention.ms").click()
    page.get_by_role("button", name="Take the change back").click()
    page.get_by_text("changed since").wait_for(state="detached")


def test_settings_that_do_nothing_here_are_shown_when_they_are_asked_for(page: Any) -> None:
    page.goto("/settings")
    page.get_by_text("auto.create.topics.enable", exact=True).wait_for()
    assert page.get_by_text("no effect here").count() == 0
    page.get_by_role("switch", name="Without effect here, too").click()
    page.get_by_text("no effect here").first.wait_for()
    page.goto("/settings?filter=num.io.threads")
    page.get_by_text("no effect here").wait_for()


def test_health_shows_the_log_and_gives_a_support_bundle(page: Any) -> None:
    page.goto("/health?level=debug")
    page.get_by_text("Takes writes").wait_for()
    page.get_by_role("log").wait_for()
    with page.expect_download() as download:
        button(page, "Support bundle").click()
    content = Path(download.value.path()).read_bytes()
    assert ZipFile(BytesIO(content)).testzip() is None


def test_the_audit_trail_tells_who_made_a_topic(page: Any, v1: V1, name: str) -> None:
    assert v1.ask("POST", "/v1/topics", {"name": name}).status == 201
    page.goto(f"/audit?filter={name}")
    row = page.locator("tbody tr", has_text=name)
    row.first.wait_for()
    assert "guest" in row.first.inner_text()
    page.goto("/audit?filter=nobody-did-this")
    page.get_by_text("nothing like that", exact=False).wait_for()


def test_an_audit_trail_that_is_off_says_so(page: Any, v1: V1) -> None:
    setting = "headrace.audit.enable"
    page.goto("/audit")
    page.get_by_role("link", name="Topic headrace.audit").wait_for()
    assert page.get_by_role("link", name=f"{setting} is false").count() == 0
    assert v1.ask("PATCH", "/v1/settings", {"settings": {setting: False}}).status == 200
    try:
        page.goto("/audit")
        page.get_by_role("link", name=f"{setting} is false").click()
        page.get_by_role("button", name=f"Change {setting}").wait_for()
    finally:
        assert v1.ask("PATCH", "/v1/settings", {"settings": {setting: None}}).status == 200


def test_the_search_box_finds_everything_with_a_name(page: Any, v1: V1, server: HeadraceServer, name: str) -> None:
    v1.publish(name, "x")
    assert v1.ask("PUT", f"/v1/vhosts/%2F/queues/{name}-queue", {}).status in (201, 204)
    body = {"topic": name, "destination": {"type": "topic", "topic": f"{name}-copy"}}
    assert v1.ask("PUT", f"/v1/routes/{name}-route", body).status == 201
    page.goto("/health")
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/find?q={name}")
    for kind in ("Topics", "Groups", "Queues", "Kinesis streams", "Routes"):
        page.get_by_role("heading", name=kind, exact=True).wait_for()
    page.get_by_role("link", name=f"{name}-route", exact=True).click()
    page.wait_for_url(f"**/routes/{name}-route")


def test_a_telephone_is_wide_enough(browser: Any, server: HeadraceServer) -> None:
    with a_page(browser, server, width=390) as page:
        for path in ("/routes", "/streams", "/pipelines", "/storage", "/settings", "/health", "/audit", "/find?q=x"):
            page.goto(path)
            page.get_by_role("heading", level=1).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_a_read_only_console_offers_no_changes(browser: Any) -> None:
    with with_console("--console-read-only", **{"headrace.webhooks.allow": "127.0.0.0/8"}) as server:
        v1 = V1(server)
        v1.publish("t", "x")
        body = {"topic": "t", "paused": True, "destination": {"type": "webhook", "url": "http://127.0.0.1:9/"}}
        assert v1.ask("PUT", "/v1/routes/r", body).status == 201
        with a_page(browser, server) as page:
            for path, shown in (
                ("/routes", "r"),
                ("/routes/r?tab=attempts", "No attempts"),
                ("/streams", "t"),
                ("/streams/t", "shardId-000000000000"),
                ("/settings", "Can be changed now"),
            ):
                page.goto(path)
                page.get_by_text(shown, exact=True).first.wait_for()
                for name in ("New route", "Pause", "Delete", "Send a test", "New stream", "Split", "Change"):
                    assert page.get_by_role("button", name=name).count() == 0, path
