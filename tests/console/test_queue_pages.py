"""Queues, exchanges, dead letters and connections in a real browser."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.console.opened import CHROMIUM, a_page, wait_for_address, with_console
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

VHOST = "/v1/vhosts/%2F"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with with_console() as started:
        v1 = V1(started)
        dead = {"arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}}
        assert v1.ask("PUT", f"{VHOST}/exchanges/shop", {"type": "topic"}).status == 201
        assert v1.ask("PUT", f"{VHOST}/queues/dead", {}).status == 201
        for queue in ("orders", "mail"):
            assert v1.ask("PUT", f"{VHOST}/queues/{queue}", dead).status == 201
            assert v1.ask("POST", f"{VHOST}/bindings/e/shop/q/{queue}", {"routing_key": f"{queue}.#"}).status == 201
        yield started


def publish(v1: V1, key: str, *payloads: bytes) -> None:
    for payload in payloads:
        message = {"properties": {}, "routing_key": key, "payload": b64encode(payload).decode(), "payload_encoding": "base64"}
        assert v1.ask("POST", f"{VHOST}/exchanges/shop/publish", message).body == {"routed": True}


def ready(v1: V1, queue: str) -> int:
    found: int = v1.get(f"{VHOST}/queues/{queue}")["messages_ready"]
    return found


def purge(v1: V1, *queues: str) -> None:
    for queue in queues:
        assert v1.ask("DELETE", f"{VHOST}/queues/{queue}/contents").status == 204


def dialog(page: Any) -> Any:
    return page.locator(".q-dialog:visible .q-card")


def test_a_queue_is_found_looked_into_moved_purged_and_deleted(page: Any, v1: V1) -> None:
    purge(v1, "orders", "mail", "dead")
    publish(v1, "orders.new", HOSTILE.encode(), b"\xff\xfe\x00", json.dumps({"total": 5}).encode())
    page.goto("/queues?filter=order")
    page.get_by_role("link", name="orders").click()
    page.get_by_role("heading", name="orders", exact=True).wait_for()
    page.get_by_role("button", name="Look").click()
    page.get_by_text(HOSTILE).first.wait_for()  # as text: nothing of it runs
    page.get_by_text("00000000 ff fe 00").first.wait_for()
    wait_for_address(page, "?skip=0")
    assert ready(v1, "orders") == 3

    page.get_by_role("button", name="Move").click()
    dialog(page).get_by_label("To the queue").fill("mail")
    dialog(page).get_by_role("button", name="Move").click()
    page.get_by_text("3 messages moved to mail").wait_for()
    assert (ready(v1, "orders"), ready(v1, "mail")) == (0, 3)

    page.goto("/queues/%2F/mail")
    page.get_by_role("button", name="Purge").click()
    assert dialog(page).get_by_role("button", name="Purge").is_disabled()
    dialog(page).get_by_label("Type the name to confirm").fill("mail")
    dialog(page).get_by_role("button", name="Purge").click()
    page.get_by_text("The queue is empty").wait_for()
    assert ready(v1, "mail") == 0

    v1.ask("PUT", f"{VHOST}/queues/short", {})
    page.goto("/queues/%2F/short")
    page.get_by_role("button", name="Delete").click()
    dialog(page).get_by_label("Type the name to confirm").fill("short")
    dialog(page).get_by_role("button", name="Delete").click()
    wait_until(lambda: v1.ask("GET", f"{VHOST}/queues/short").status == 404)


def test_messages_are_got_and_gone_only_when_the_name_was_typed(page: Any, v1: V1) -> None:
    purge(v1, "orders", "mail", "dead")
    publish(v1, "orders.new", b"first", b"second")
    page.goto("/queues/%2F/orders")
    page.get_by_role("button", name="Get …").click()
    dialog(page).get_by_role("button", name="Get", exact=True).click()
    dialog(page).get_by_text("first").first.wait_for()
    assert ready(v1, "orders") == 2  # put back
    dialog(page).get_by_label("Then they are").click()
    page.get_by_role("option", name="acknowledged: gone").click()
    dialog(page).get_by_label("Type orders to confirm").wait_for()
    dialog(page).get_by_role("button", name="Get", exact=True).click()
    dialog(page).get_by_text("Type orders first").wait_for()
    assert ready(v1, "orders") == 2
    dialog(page).get_by_label("Type orders to confirm").fill("orders")
    dialog(page).get_by_role("button", name="Get", exact=True).click()
    wait_until(lambda: ready(v1, "orders") == 1, what="the message to be gone")


def test_a_trial_tells_where_a_message_goes_and_a_form_sends_one_there(page: Any, v1: V1) -> None:
    purge(v1, "orders", "mail")
    page.goto("/exchanges/%2F/shop")
    page.get_by_label("Routing key").fill("orders.new")
    page.get_by_role("button", name="Try").click()
    page.get_by_text("orders.# → queue orders").wait_for()
    assert ready(v1, "orders") == 0
    page.goto("/exchanges/%2F/shop?key=nothing")
    page.get_by_text("No queue gets it").wait_for()

    page.get_by_role("button", name="Publish").click()
    dialog(page).get_by_label("Routing key").fill("orders.new")
    dialog(page).get_by_label("Payload").fill("hello")
    dialog(page).get_by_label("Headers (JSON, optional)").fill('{"n": 1}')
    dialog(page).get_by_role("button", name="Publish").click()
    page.get_by_text("Published", exact=True).wait_for()
    message = v1.get(f"{VHOST}/queues/orders/peek")[0]
    assert (message["payload"], message["properties"]["headers"]) == ("hello", {"n": 1})


def test_a_binding_can_be_taken_away_and_put_back(page: Any, v1: V1) -> None:
    page.goto("/queues/%2F/orders")
    page.get_by_role("button", name="Unbind").click()
    page.get_by_role("button", name="Unbound: undo").wait_for()
    assert v1.get(f"{VHOST}/queues/orders/bindings")["item_count"] == 1
    page.get_by_role("button", name="Unbound: undo").click()
    page.get_by_text("Bound again").wait_for()
    assert v1.get(f"{VHOST}/queues/orders/bindings")["item_count"] == 2


def test_dead_letters_tell_their_story_and_go_back_one_some_or_all(page: Any, v1: V1) -> None:
    purge(v1, "orders", "mail", "dead")
    publish(v1, "orders.new", *(f"m{number}".encode() for number in range(6)))
    body = {"count": 6, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(v1.ask("POST", f"{VHOST}/queues/orders/get", body).body) == 6
    page.goto("/dead-letters")
    page.get_by_role("cell", name="dead", exact=True).click()
    page.get_by_text("6 messages in the queue").wait_for()
    page.get_by_text("rejected in orders").first.click()
    page.get_by_role("cell", name="orders.new").wait_for()

    page.get_by_role("button", name="Retry 0-0").click()
    page.get_by_text("5 messages in the queue").wait_for()
    assert [each["payload"] for each in v1.get(f"{VHOST}/queues/orders/peek?count=9")] == ["m0"]
    for number in (2, 4):
        page.get_by_role("checkbox", name=f"Tick 0-{number}").click()
    page.get_by_role("button", name="Retry ticked (2)").click()
    page.get_by_text("3 messages in the queue").wait_for()
    page.get_by_role("button", name="Retry all").click()
    page.get_by_text("No dead letters here").wait_for()
    assert (ready(v1, "orders"), ready(v1, "dead")) == (6, 0)


def test_a_dead_letter_of_a_route_is_delivered_again_with_one_click(page: Any, v1: V1) -> None:
    v1.publish("late", "a", "b", partition=0)
    target = {"type": "exchange", "exchange": "", "routing_key": "late-queue"}
    assert v1.ask("PUT", "/v1/routes/late", {"topic": "late", "destination": target}).status == 201
    wait_until(lambda: v1.get("/v1/routes/late")["dead_lettered"] == 2)
    assert v1.ask("PUT", f"{VHOST}/queues/late-queue", {}).status == 201
    page.goto("/dead-letters")
    page.get_by_role("cell", name="late.dead-letters").click()
    page.get_by_text("2 records").wait_for()
    page.get_by_role("button", name="Retry 0-1").click()
    page.get_by_text("1 record on the way again").wait_for()
    wait_until(lambda: ready(v1, "late-queue") == 1)
    page.get_by_role("button", name="Retry all").click()
    dialog(page).get_by_role("button", name="Retry all").click()
    page.get_by_text("2 of about 2 records on the way again").wait_for()
    wait_until(lambda: ready(v1, "late-queue") == 3)


def test_any_name_has_its_page_and_no_name_has_a_word_about_it(page: Any, v1: V1) -> None:
    assert v1.ask("PUT", "/api/vhosts/a%2Fb%20c", {}, user="guest:guest").status == 201
    path = "/queues/a%2Fb%20c/%3Cb%3E%20%2F%3F%23%C3%BC"
    assert v1.ask("PUT", f"/v1/vhosts{path.replace('/queues', '').replace('c/%3C', 'c/queues/%3C')}", {}).status == 201
    page.goto("/queues?filter=%23")
    page.get_by_role("link", name="<b> /?#ü").click()
    page.get_by_role("heading", name="<b> /?#ü").wait_for()
    assert page.url.endswith(path)
    page.goto("/queues/%2F")
    page.get_by_text("there is no such page").wait_for()
    page.goto("/queues/%2F/not-there")
    page.get_by_text("there is no such thing").wait_for()


def test_the_graph_is_drawn_and_listed(page: Any) -> None:
    page.goto("/graph?prefix=shop")
    page.get_by_text("As a list").click()
    page.get_by_role("cell", name="exchange shop").first.wait_for()
    page.get_by_role("cell", name="mail.#").wait_for()
    page.locator(".nicegui-echart svg").first.wait_for()


def test_a_connection_is_seen_and_closed(page: Any, server: HeadraceServer) -> None:
    address = urlsplit(server.http)
    with socket.create_connection((address.hostname, address.port), timeout=20) as stranger:
        stranger.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nUser-Agent: stranger\r\n\r\n")
        assert stranger.recv(65536)
        peer = "{}:{}".format(*stranger.getsockname())
        page.goto(f"/connections?protocol=http&filter={peer}")
        page.get_by_role("cell", name=peer).wait_for()
        page.get_by_role("link", name="http").click()
        page.get_by_role("button", name="Close connection").click()
        dialog(page).get_by_label("Type the name to confirm").fill(peer)
        dialog(page).get_by_role("button", name="Close connection").click()
        page.get_by_role("heading", name="Connections").wait_for()
        with suppress(ConnectionResetError):  # that is an end, too
            assert stranger.recv(1) == b""


def test_an_amqp_connection_is_shown_with_its_channels(page: Any, server: HeadraceServer) -> None:
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.URLParameters(server.amqp))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("mail", lambda *_: None)
    page.goto("/connections?protocol=amqp")
    page.get_by_role("link", name="amqp").click()
    page.get_by_role("cell", name="7", exact=True).wait_for()
    page.goto("/queues/%2F/mail")
    page.get_by_role("cell", name="ctag1", exact=False).first.wait_for()
    connection.close()


def test_it_is_usable_on_a_phone_and_a_read_only_console_offers_no_change(browser: Any) -> None:
    with with_console("--console-read-only") as server:
        V1(server).ask("PUT", f"{VHOST}/queues/orders", {})
        with a_page(browser, server, width=390) as page:
            page.goto("/queues/%2F/orders")
            page.get_by_text("Nobody consumes from it").wait_for()
            for name in ("Publish", "Move", "Purge", "Delete", "Bind", "Get …"):
                assert page.get_by_role("button", name=name).count() == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
