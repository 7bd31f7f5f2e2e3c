"""What is around every page, in a real browser: keys, focus, dark and light, and what happens when the server is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.console.opened import CHROMIUM, a_page, attached, with_console
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]

AWAY = "The server does not answer. This page goes on by itself when it is back."
IS_DARK = "() => document.body.classList.contains('body--dark')"
FOCUSED = "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with with_console() as started:
        yield started


def at(page: Any, path: str) -> None:
    page.goto(path)
    page.get_by_role("heading", level=1).wait_for()


def test_keys_lead_to_the_search_to_pages_and_to_a_list_of_them(page: Any) -> None:
    at(page, "/health")
    search = page.get_by_role("textbox", name="Find a topic, queue, group, stream or route")
    page.keyboard.press("Control+k")
    page.wait_for_function("() => document.activeElement.classList.contains('headrace-search')")
    page.keyboard.type("g")  # in a field a letter is a letter
    assert search.input_value() == "g"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keys").wait_for(state="hidden")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    assert page.title() == "Topics · Headrace"


def test_a_dialog_takes_the_focus_does_what_enter_says_and_gives_the_focus_back(page: Any, server: HeadraceServer) -> None:
    at(page, "/topics")
    opener = page.get_by_role("button", name="New topic")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="New topic")
    dialog.wait_for()
    page.wait_for_function("() => document.activeElement.getAttribute('aria-label') === 'Name'")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.wait_for_function("() => document.activeElement.textContent.includes('New topic')")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.getAttribute('aria-label') === 'Name'")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="by-keyboard").wait_for()
    assert V1(server).ask("GET", "/v1/topics/by-keyboard").status == 200


def test_what_is_wrong_with_an_answer_is_said_in_its_dialog_until_it_is_right(page: Any, server: HeadraceServer) -> None:
    at(page, "/routes")
    page.get_by_role("button", name="New route").click()
    dialog = page.get_by_role("dialog", name="New route")
    said = dialog.get_by_role("alert")
    dialog.get_by_role("button", name="Create").click()
    said.get_by_text("Name is missing").wait_for()
    dialog.get_by_label("Name", exact=True).fill("large")
    dialog.get_by_label("From topic").fill("from")
    dialog.get_by_label("Name of the topic or exchange").fill("to")
    dialog.get_by_label("Filter (CEL)").fill("value >")
    dialog.get_by_role("button", name="Create").click()
    said.get_by_text("line 1").wait_for()
    dialog.get_by_label("Name", exact=True).fill("")
    dialog.get_by_role("button", name="Create").click()
    said.get_by_text("Name is missing").wait_for()
    assert said.inner_text() == "Name is missing"
    assert page.locator(".q-notification").count() == 0
    assert V1(server).get("/v1/routes")["routes"] == []


def test_what_is_refused_after_its_dialog_is_closed_is_still_told(page: Any, server: HeadraceServer) -> None:
    assert V1(server).ask("POST", "/v1/topics", {"name": "goes-first"}).status == 201
    at(page, "/topics/goes-first")
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type the name to confirm").fill("goes-first")
    assert V1(server).ask("DELETE", "/v1/topics/goes-first").status in (200, 204)
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    told = page.locator(".q-notification").get_by_role("button", name="OK")
    told.wait_for()
    colours = "element => [getComputedStyle(element).color, getComputedStyle(element.closest('.q-notification')).color]"
    button, text = told.evaluate(colours)
    assert button == text  # on the same ground
    told.click()
    told.wait_for(state="hidden")


def test_enter_deletes_only_when_the_name_was_typed(page: Any, server: HeadraceServer) -> None:
    v1 = V1(server)
    assert v1.ask("POST", "/v1/topics", {"name": "to-delete"}).status == 201
    at(page, "/topics/to-delete")
    page.get_by_role("button", name="Delete").click()
    field = page.get_by_label("Type the name to confirm")
    field.fill("to-delet")
    field.press("Enter")
    page.get_by_role("dialog", name="Delete this topic?").wait_for()
    assert v1.ask("GET", "/v1/topics/to-delete").status == 200
    field.fill("to-delete")
    field.press("Enter")
    page.wait_for_url("**/topics")
    assert v1.ask("GET", "/v1/topics/to-delete").status == 404


def test_dark_follows_the_system_until_somebody_chooses(browser: Any, server: HeadraceServer) -> None:
    context = browser.new_context(base_url=server.listeners["console"], color_scheme="dark")
    page = context.new_page()
    at(page, "/")
    page.wait_for_function(IS_DARK)
    page.get_by_role("button", name="Dark or light").click()
    page.wait_for_function(f"() => !({IS_DARK})()")
    at(page, "/topics")
    page.wait_for_function(f"() => !({IS_DARK})()")
    page.get_by_role("button", name="Dark or light").click()
    page.wait_for_function(IS_DARK)
    context.close()


def test_the_keyboard_passes_by_the_navigation_and_every_list_can_be_opened_with_it(page: Any, server: HeadraceServer) -> None:
    assert V1(server).ask("POST", "/v1/topics", {"name": "reached"}).status in (201, 409)
    at(page, "/topics?filter=reached")
    page.get_by_role("link", name="reached").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "To the content"
    page.get_by_role("link", name="reached").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/reached")
    assert page.get_by_role("navigation", name="Pages").locator("[aria-current=page]").inner_text().endswith("Topics")


def test_a_list_that_changes_leaves_the_focus_where_it_is(page: Any, server: HeadraceServer) -> None:
    assert V1(server).ask("POST", "/v1/topics", {"name": "stays"}).status == 201
    at(page, "/topics?filter=stays")
    link = page.get_by_role("link", name="stays", exact=True)
    link.focus()
    for number in range(2):
        assert V1(server).ask("POST", "/v1/topics", {"name": f"stays-{number}"}).status == 201
        page.get_by_role("link", name=f"stays-{number}").wait_for()
        assert page.evaluate(FOCUSED) == "stays"
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/stays")


def test_a_page_tells_when_it_loses_the_focus_and_looks_at_once_when_it_has_it_again(page: Any, server: HeadraceServer) -> None:
    said: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: said.append(str(frame))))
    at(page, "/topics")
    page.evaluate("() => { document.hasFocus = () => false; window.dispatchEvent(new Event('blur')); }")
    wait_until(page, lambda: any("aside" in each for each in said))
    assert V1(server).ask("POST", "/v1/topics", {"name": "made-meanwhile"}).status == 201
    page.evaluate("() => { delete document.hasFocus; window.dispatchEvent(new Event('focus')); }")
    wait_until(page, lambda: any("focused" in each for each in said))
    page.get_by_role("link", name="made-meanwhile").wait_for()


def wait_until(page: Any, there: Callable[[], bool]) -> None:
    """The browser's events come while it is asked something."""
    deadline_s = time.monotonic() + 30
    while not there():
        assert time.monotonic() < deadline_s
        page.evaluate("() => new Promise(requestAnimationFrame)")


def test_a_filter_that_nothing_matches_is_told_and_taken_away(page: Any, server: HeadraceServer) -> None:
    assert V1(server).ask("POST", "/v1/topics", {"name": "reached"}).status in (201, 409)
    at(page, "/topics?filter=nothing-like-this")
    page.get_by_text("Nothing matches the filter").wait_for()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("link", name="reached").wait_for()


def test_what_is_not_there_says_so_and_leads_to_the_list(page: Any) -> None:
    at(page, "/topics/never-made")
    page.get_by_role("heading", name="Not found").wait_for()
    page.get_by_role("button", name="To the list").click()
    page.wait_for_url("**/topics")


@pytest.mark.parametrize("path", ["/queues/%2F/never-made", "/streams/never-made", "/groups/never-made"])
def test_whatever_is_not_there_is_named(page: Any, path: str) -> None:
    at(page, path)
    page.get_by_role("heading", name="Not found").wait_for()
    page.get_by_text("“never-made” is not here: it was deleted, or never made").wait_for()


def test_an_address_that_leads_nowhere_has_the_navigation(page: Any) -> None:
    at(page, "/no-such-thing/at-all")
    page.get_by_role("heading", name="There is no such page").wait_for()
    page.get_by_text("Nothing is at /no-such-thing/at-all.").wait_for()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
    page.wait_for_url("**/topics")


def test_a_topic_that_is_deleted_while_it_is_shown_is_told(page: Any, server: HeadraceServer) -> None:
    v1 = V1(server)
    assert v1.ask("POST", "/v1/topics", {"name": "short-lived"}).status == 201
    at(page, "/topics/short-lived")
    page.get_by_text("partitions").first.wait_for()
    assert v1.ask("DELETE", "/v1/topics/short-lived").status in (200, 204)
    page.get_by_text("It is not there any more").wait_for()


def test_a_server_that_is_away_is_told_and_the_page_goes_on_when_it_is_back(browser: Any) -> None:
    """The console is one that `headrace console` has attached: it outlives the server."""
    with HeadraceServer() as server, attached(server) as console, a_page(browser, console) as page:
        assert V1(server).ask("POST", "/v1/topics", {"name": "stays"}).status == 201
        at(page, "/topics")
        page.get_by_role("link", name="stays").wait_for()
        server.crash()
        page.get_by_text(AWAY).wait_for()
        assert page.get_by_role("link", name="stays").count() == 1  # as it was
        server.restart()
        page.get_by_text(AWAY).wait_for(state="hidden")
        server.crash()
        at(page, "/topics/stays")  # opened meanwhile
        page.get_by_role("heading", name="The server does not answer").wait_for()
        server.restart()
        page.get_by_text("on disk").wait_for()
        assert page.get_by_role("heading", name="The server does not answer").count() == 0
