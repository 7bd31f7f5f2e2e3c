"""A real browser: Chromium, driven by Playwright.

Server-sent events over a server that is killed, WebSockets, and what pages of others may not do. Pages of other origins are
served here, on a loopback address; names of others are made to point to this machine with Chromium's resolver rules.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer, wait_until
from headrace.testing.plugin import HeadraceFactory

CHROMIUM = Path("/usr/bin/chromium")
BLANK = "/v1/openapi.json"  # a page of the server's own origin

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP *.example 127.0.0.1"]
        made = started.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield made
        made.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of a web server of somebody else, with an empty page at every path."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def topic() -> str:
    return f"browser-{uuid.uuid4().hex[:8]}"


def on_page(page: Any, script: str, argument: object = None) -> Any:
    return page.evaluate(script, argument)


FOLLOW = """path => {
    window.seen = []; window.ids = []; window.opened = 0;
    window.source = new EventSource(path);
    source.onopen = () => { opened += 1; };
    source.onmessage = event => { seen.push(JSON.parse(event.data).value); ids.push(event.lastEventId); };
}"""


def test_every_event_is_on_the_page_once_and_in_order_although_the_server_is_killed(
    headrace_factory: HeadraceFactory, page: Any
) -> None:
    server = headrace_factory(num_partitions=1)
    v1 = V1(server)
    v1.publish("t", *range(5))
    page.goto(f"{server.http}{BLANK}")
    on_page(page, FOLLOW, "/v1/topics/t/stream?from=earliest")
    wait_until(lambda: len(on_page(page, "seen")) == 5, timeout_s=30, what="what was there")
    total = 5
    for _ in range(2):
        v1.publish("t", *range(total, total + 5))
        wait_until(lambda: len(on_page(page, "seen")) >= total + 1, timeout_s=30, what="something new")  # noqa: B023
        server.crash()
        server.restart()
        v1.publish("t", *range(total + 5, total + 10))  # before the browser is back, or after
        total += 10
        wait_until(lambda: len(on_page(page, "seen")) >= total, timeout_s=60, what="the browser to come back")  # noqa: B023
    assert on_page(page, "seen") == list(range(total))
    assert on_page(page, "opened") == 3
    assert len(set(on_page(page, "ids"))) == total


def test_a_page_that_has_seen_nothing_yet_misses_nothing_when_it_comes_back(
    headrace_factory: HeadraceFactory, page: Any
) -> None:
    server = headrace_factory(num_partitions=3)
    v1 = V1(server)
    v1.publish("t", "old", partition=0)
    page.goto(f"{server.http}{BLANK}")
    on_page(page, FOLLOW, "/v1/topics/t/stream")
    wait_until(lambda: on_page(page, "opened") == 1, timeout_s=30, what="the stream")
    server.crash()
    server.restart()
    for partition in range(3):
        v1.publish("t", f"while away {partition}", partition=partition)
    wait_until(lambda: len(on_page(page, "seen")) == 3, timeout_s=60, what="what came meanwhile")
    assert sorted(on_page(page, "seen")) == [f"while away {partition}" for partition in range(3)]


def test_a_deleted_topic_ends_an_event_source_for_good(headrace_shared_server: HeadraceServer, page: Any, topic: str) -> None:
    v1 = V1(headrace_shared_server)
    v1.publish(topic, "x")
    page.goto(f"{headrace_shared_server.http}{BLANK}")
    on_page(page, FOLLOW, f"/v1/topics/{topic}/stream?from=earliest")
    on_page(page, "() => source.addEventListener('end', event => { window.end = JSON.parse(event.data); })")
    wait_until(lambda: on_page(page, "seen") == ["x"], timeout_s=30)
    v1.ask("DELETE", f"/v1/topics/{topic}")
    wait_until(lambda: on_page(page, "source.readyState") == 2, timeout_s=30, what="it to give up")
    assert on_page(page, "end") == {"reason": "the topic was deleted"}


def test_a_page_publishes_and_hears_over_a_websocket(headrace_shared_server: HeadraceServer, page: Any, topic: str) -> None:
    V1(headrace_shared_server).publish(topic, "first")
    page.goto(f"{headrace_shared_server.http}{BLANK}")
    on_page(
        page,
        """path => {
            window.heard = []; window.answers = [];
            window.ws = new WebSocket(path);
            ws.onmessage = event => {
                const message = JSON.parse(event.data);
                if (message.type === "events") heard.push(...message.events.map(each => each.value));
                else answers.push(message);
            };
            ws.onopen = () => {
                for (let n = 0; n < 100; n++) ws.send(JSON.stringify({type: "publish", id: n, event: {value: {n}, key: "k"}}));
            };
        }""",
        f"/v1/topics/{topic}/socket?from=earliest",
    )
    wait_until(lambda: len(on_page(page, "heard")) == 101, timeout_s=30, what="a hundred and one events")
    heard = on_page(page, "heard")
    assert [each["n"] for each in heard if each != "first"] == list(range(100))
    published = [each["id"] for each in on_page(page, "answers") if each["type"] == "published"]
    wait_until(lambda: len([a for a in on_page(page, "answers") if a["type"] == "published"]) == 100, timeout_s=30)
    assert published == list(range(len(published)))
    on_page(page, "() => new Promise(done => { ws.onclose = event => { window.code = event.code; done(); }; ws.close(1000); })")
    assert on_page(page, "code") == 1000


ATTEMPT = """async ([url, topic]) => {
    const results = {};
    const tried = async (name, what) => {
        try { const answer = await what(); results[name] = answer.status || answer.type; }
        catch (error) { results[name] = "failed"; }
    };
    const json = {method: "POST", body: '{"value":1}', headers: {"content-type": "application/json"}};
    await tried("read", () => fetch(`${url}/v1/topics`));
    await tried("simple post", () => fetch(`${url}/v1/topics/${topic}/events`, {method: "POST", body: "x", mode: "no-cors"}));
    await tried("json post", () => fetch(`${url}/v1/topics/${topic}/events`, json));
    await tried("delete", () => fetch(`${url}/v1/topics/${topic}`, {method: "DELETE"}));
    results.socket = await new Promise(done => {
        const ws = new WebSocket(url.replace("http", "ws") + "/v1/socket");
        ws.onopen = () => done("open"); ws.onerror = () => done("failed");
    });
    results.source = await new Promise(done => {
        const source = new EventSource(`${url}/v1/topics/${topic}/stream`);
        source.onopen = () => done("open"); source.onerror = () => done("failed");
    });
    return results;
}"""


def end_of(v1: V1, topic: str) -> int:
    return sum(each["end_offset"] for each in v1.get(f"/v1/topics/{topic}")["partitions"])


def test_a_page_of_somebody_else_can_neither_read_nor_change_anything(
    headrace_shared_server: HeadraceServer, page: Any, topic: str, elsewhere: int
) -> None:
    v1 = V1(headrace_shared_server)
    v1.publish(topic, "mine")
    page.goto(f"http://127.0.0.1:{elsewhere}/")
    results = on_page(page, ATTEMPT, [headrace_shared_server.http, topic])
    assert results == {
        "read": "failed", "simple post": "opaque", "json post": "failed", "delete": "failed", "socket": "failed",
        "source": "failed",
    }  # fmt: skip
    assert end_of(v1, topic) == 1
    # A form, which needs no script and no permission to be sent.
    page.set_content(
        f'<form method=post enctype=text/plain action="{headrace_shared_server.http}/v1/topics/{topic}/events">'
        f"<input name=a value=b></form>"
    )
    with page.expect_navigation():
        on_page(page, "() => document.forms[0].submit()")
    assert "origin_not_allowed" in page.content()
    assert end_of(v1, topic) == 1


def test_a_name_that_points_to_this_machine_gets_nothing(headrace_shared_server: HeadraceServer, page: Any, topic: str) -> None:
    """DNS rebinding: the page and what it asks for have the same origin, whose name has come to mean this machine."""
    v1 = V1(headrace_shared_server)
    v1.publish(topic, "mine")
    port = urlsplit(headrace_shared_server.http).port
    shown = page.goto(f"http://rebound.example:{port}/v1/docs")
    assert (shown.status, json.loads(shown.body())["code"]) == (421, "host_not_allowed")
    results = on_page(page, ATTEMPT, [f"http://rebound.example:{port}", topic])
    assert results == {
        "read": 421, "simple post": 421, "json post": 421, "delete": 421, "socket": "failed", "source": "failed",
    }  # fmt: skip
    assert end_of(v1, topic) == 1


def test_a_page_that_the_operator_lists_may_do_it_all(headrace_factory: HeadraceFactory, page: Any, elsewhere: int) -> None:
    server = headrace_factory(settings={"headrace.http.origins": f"http://127.0.0.1:{elsewhere}", "num.partitions": 1})
    v1 = V1(server)
    v1.publish("t", "mine")
    page.goto(f"http://127.0.0.1:{elsewhere}/")
    results = on_page(page, ATTEMPT, [server.http, "t"])
    assert results == {
        "read": 200, "simple post": "opaque", "json post": 200, "delete": 204, "socket": "open", "source": "failed",
    }  # fmt: skip
    v1.publish("t", "again")
    on_page(page, FOLLOW, f"{server.http}/v1/topics/t/stream?from=earliest")
    wait_until(lambda: on_page(page, "seen") == ["again"], timeout_s=30)


def test_what_somebody_else_published_is_text_on_the_page_of_routes(headrace_factory: HeadraceFactory, page: Any) -> None:
    server = headrace_factory(num_partitions=1)
    v1 = V1(server)
    hostile = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"
    definition = {
        "topic": "t", "filter": f"value == \"{hostile}\"", "paused": True,
        "destination": {"type": "exchange", "exchange": "amq.topic", "routing_key": hostile},
    }  # fmt: skip
    assert v1.ask("PUT", "/v1/routes/odd", definition).status == 201
    v1.publish("t", hostile)
    shown = page.goto(f"{server.http}/routes")
    if shown.status == 404:
        pytest.skip("there is no page of routes")
    assert shown.status == 200
    wait_until(lambda: "odd" in page.inner_text("body"), timeout_s=30, what="the route to be shown")
    assert on_page(page, "window.hit") is None
    assert page.locator("img[src=x]").count() == 0
