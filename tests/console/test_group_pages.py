"""Groups in a real browser: where they stand, and moving them. And a console that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.opened import CHROMIUM, a_page, with_console
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer, wait_until

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with with_console() as started:
        v1 = V1(started)
        for topic in ("orders", "payments"):
            assert v1.ask("POST", "/v1/topics", {"name": topic, "partitions": 2}).status == 201
            for partition in range(2):
                v1.publish(topic, *range(10), partition=partition)
        yield started


def place(v1: V1, group: str, offset: int) -> None:
    for topic in ("orders", "payments"):
        assert v1.ask("POST", f"/v1/groups/{group}/offsets/reset", {"topic": topic, "to": offset}).status == 200


def positions(v1: V1, group: str) -> list[int]:
    return [each["offset"] for each in v1.get(f"/v1/groups/{group}/offsets")["offsets"]]


def dialog(page: Any) -> Any:
    return page.locator(".q-dialog:visible .q-card")


def choose(page: Any, label: str, option: str) -> None:
    dialog(page).get_by_label(label, exact=True).click()
    page.locator(".q-menu:visible").get_by_text(option, exact=True).click()


def test_the_list_has_the_lag_and_leads_to_the_group(page: Any, v1: V1) -> None:
    place(v1, "readers%2Fa", 7)
    page.goto("/groups")
    row = page.locator("tbody tr", has_text="readers/a")
    row.wait_for()
    assert row.locator("td").all_inner_texts() == ["readers/a", "classic", "Empty", "0", "12"]
    row.get_by_role("link").click()
    page.get_by_role("heading", name="readers/a").wait_for()
    page.get_by_text("12 records behind").wait_for()
    assert page.locator(".headrace-list:visible tbody tr").count() == 4


def test_members_and_what_they_read_are_shown(page: Any, server: HeadraceServer, v1: V1) -> None:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "team", "client.id": "<b>ann</b>"})
    consumer.subscribe(["orders"])
    wait_until(lambda: (consumer.poll(0.1), consumer.assignment())[1], timeout_s=30, what="an assignment")
    page.goto("/groups/team")
    page.get_by_text("Stable").wait_for()
    members = page.locator(".headrace-members tbody tr td").all_inner_texts()
    assert (members[0], members[2]) == ("<b>ann</b>", "orders: 0, 1")
    consumer.close()
    page.get_by_text("nobody reads for this group now").wait_for()
    place(v1, "team", 9)
    page.goto("/topics/orders?tab=consumers")
    row = page.locator("tbody tr", has_text="team")
    row.wait_for()
    assert row.locator("td").all_inner_texts() == ["team", "classic", "Empty", "0", "2", "2"]


def test_a_reset_of_all_topics_is_shown_before_it_is_done_and_can_be_taken_back(page: Any, v1: V1) -> None:
    place(v1, "mover", 4)
    page.goto("/groups/mover")
    page.get_by_role("button", name="Reset offsets").click()
    assert dialog(page).get_by_role("button", name="Apply").is_disabled()
    choose(page, "Move to", "so many records on")
    dialog(page).get_by_label("Records (negative: back)").fill("-3")
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("4 of 4 positions would change. Nothing is changed yet.").wait_for()
    assert positions(v1, "mover") == [4, 4, 4, 4]
    dialog(page).get_by_role("button", name="Apply").click()
    dialog(page).get_by_text("Done: 4 positions set.").wait_for()
    assert positions(v1, "mover") == [1, 1, 1, 1]
    dialog(page).get_by_role("button", name="Undo").click()
    dialog(page).get_by_text("Taken back").wait_for()
    assert positions(v1, "mover") == [4, 4, 4, 4]


def test_only_some_partitions_of_one_topic_are_moved(page: Any, v1: V1) -> None:
    place(v1, "partly", 4)
    page.goto("/groups/partly")
    page.get_by_role("button", name="Reset offsets").click()
    assert not dialog(page).get_by_label("Partitions (all)").is_visible()
    choose(page, "Topic", "payments")
    dialog(page).get_by_label("Partitions (all)").fill("1")
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("1 of 1 positions would change. Nothing is changed yet.").wait_for()
    dialog(page).get_by_role("button", name="Apply").click()
    dialog(page).get_by_text("Done: 1 position set.").wait_for()
    assert positions(v1, "partly") == [4, 4, 4, 0]


def test_a_group_that_somebody_reads_for_is_not_moved_and_it_is_said_who(page: Any, server: HeadraceServer) -> None:
    consumer = Consumer({"bootstrap.servers": server.kafka, "group.id": "busy", "client.id": "bob"})
    consumer.subscribe(["orders"])
    wait_until(lambda: (consumer.poll(0.1), consumer.assignment())[1], timeout_s=30, what="an assignment")
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    page.goto("/groups/busy")
    page.get_by_role("button", name="Reset offsets").click()
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("group 'busy' is Stable with 1 active member (bob): stop them first").wait_for()
    assert dialog(page).get_by_role("button", name="Apply").is_disabled()
    consumer.close()
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("1 of 1 positions would change").wait_for()


def test_what_was_previewed_does_not_hold_for_another_target(page: Any, v1: V1) -> None:
    place(v1, "careful", 4)
    page.goto("/groups/careful")
    page.get_by_role("button", name="Reset offsets").click()
    dialog(page).get_by_role("button", name="Preview").click()
    apply = dialog(page).get_by_role("button", name="Apply")
    wait_until(apply.is_enabled, timeout_s=10)
    choose(page, "Move to", "an offset")
    wait_until(apply.is_disabled, timeout_s=10)
    dialog(page).get_by_label("Offset", exact=True).fill("x")
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_text("That is no number").wait_for()
    assert positions(v1, "careful") == [4, 4, 4, 4]


def test_a_group_is_deleted_by_typing_its_name(page: Any, v1: V1) -> None:
    place(v1, "gone", 1)
    page.goto("/groups/gone")
    page.get_by_role("button", name="Delete").click()
    dialog(page).get_by_label("Type the name to confirm").fill("gone")
    dialog(page).get_by_role("button", name="Delete").click()
    page.wait_for_url("**/groups")
    assert v1.ask("GET", "/v1/groups/gone").status == 404


def test_a_group_that_is_not_there_is_told_of(page: Any) -> None:
    page.goto("/groups/nobody")
    page.get_by_text("there is no group 'nobody'").wait_for()


def test_a_console_that_only_shows_has_nothing_that_changes(browser: Any) -> None:
    with with_console("--console-read-only") as server:
        v1 = V1(server)
        v1.publish("orders", "x", partition=0)
        assert v1.ask("POST", "/v1/groups/readers/offsets/reset", {"topic": "orders", "to": 0}).status == 200
        with a_page(browser, server) as page:
            page.goto("/topics")
            page.get_by_role("link", name="orders").wait_for()
            assert page.get_by_role("button", name="New topic").count() == 0
            page.goto("/topics/orders?tab=produce")
            page.get_by_text("on disk").wait_for()
            assert page.get_by_role("tab", name="Produce").count() == 0
            assert page.get_by_role("button", name="Delete").count() == 0
            page.get_by_role("tab", name="Settings").click()
            page.get_by_text("What happens to old records").wait_for()
            assert page.get_by_role("button", name="Change").count() == 0
            page.goto("/groups/readers")
            page.get_by_text("records behind").first.wait_for()
            assert page.get_by_role("button", name="Reset offsets").count() == 0
