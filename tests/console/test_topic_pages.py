"""Topics and what is in them, in a real browser against a real server."""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.console.avro_encoding import sized, zigzag
from tests.console.opened import CHROMIUM, a_page, with_console
from tests.console.test_avro import HOSTILE as HOSTILE_TEXT
from tests.console.test_formats import AVRO, CONFLUENT, DATA, LINE, described
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
    with with_console(**{"num.partitions": 2}) as started:
        yield started


@pytest.fixture
def topic(v1: V1) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    assert v1.ask("POST", "/v1/topics", {"name": name, "partitions": 2}).status == 201
    return name


def cells(page: Any, table: str, column: int) -> list[str]:
    return [text.strip() for text in page.locator(f"{table} tbody tr td:nth-child({column})").all_inner_texts()]


def values(page: Any) -> list[str]:
    return cells(page, ".headrace-events:visible", 5)


def dialog(page: Any) -> Any:
    return page.locator(".q-dialog:visible .q-card")


def test_a_topic_is_made_found_and_deleted_by_typing_its_name(page: Any, v1: V1) -> None:
    page.goto("/topics")
    page.get_by_role("button", name="New topic").click()
    dialog(page).get_by_label("Name").fill("wrong name!")
    dialog(page).get_by_role("button", name="Create").click()
    page.get_by_text("Topic name is invalid").or_(page.get_by_text("illegal")).first.wait_for()
    dialog(page).get_by_label("Name").fill("made-here")
    dialog(page).get_by_label("Partitions").fill("3")
    dialog(page).get_by_role("button", name="Create").click()
    page.get_by_role("link", name="made-here").wait_for()
    assert len(v1.get("/v1/topics/made-here")["partitions"]) == 3
    page.get_by_label("Name contains").fill("de-he")
    page.wait_for_url("**filter=de-he**")
    page.get_by_role("link", name="made-here").click()
    page.wait_for_url("**/topics/made-here")
    page.get_by_role("button", name="Delete").click()
    confirm = dialog(page).get_by_role("button", name="Delete")
    assert confirm.is_disabled()
    dialog(page).get_by_label("Type the name to confirm").fill("made-her")
    assert confirm.is_disabled()
    dialog(page).get_by_label("Type the name to confirm").fill("made-here")
    confirm.click()
    page.wait_for_url("**/topics")
    assert v1.ask("GET", "/v1/topics/made-here").status == 404


def test_partitions_are_added_and_old_records_are_forgotten(page: Any, v1: V1, topic: str) -> None:
    v1.publish(topic, *range(10), partition=1)
    page.goto(f"/topics/{topic}")
    page.get_by_role("button", name="Trim").click()
    dialog(page).get_by_label("Before").fill("4")
    dialog(page).get_by_label("Only in this partition").fill("1")
    assert dialog(page).get_by_role("button", name="Trim").is_disabled()
    dialog(page).get_by_label("Type the topic's name").fill(topic)
    dialog(page).get_by_role("button", name="Trim").click()
    page.get_by_text("Everything before 4 is forgotten").wait_for()
    assert [each["start_offset"] for each in v1.get(f"/v1/topics/{topic}")["partitions"]] == [0, 4]
    page.get_by_role("button", name="Add partitions").click()
    dialog(page).get_by_label("How many there shall be").fill("4")
    dialog(page).get_by_role("button", name="Add", exact=True).click()
    wait_until(lambda: len(v1.get(f"/v1/topics/{topic}")["partitions"]) == 4, timeout_s=10)
    page.locator(".headrace-list tbody tr").nth(3).wait_for()  # the page was loaded anew
    assert cells(page, ".headrace-list:visible", 1) == ["0", "1", "2", "3"]


def test_a_setting_is_explained_checked_while_it_is_typed_and_changed(page: Any, v1: V1, topic: str) -> None:
    page.goto(f"/topics/{topic}?tab=settings")
    page.get_by_text("What happens to old records").wait_for()
    page.get_by_role("button", name="Change retention.ms", exact=True).click()
    value = dialog(page).get_by_label("Value (long)")
    value.fill("soon")
    dialog(page).get_by_text("Not a number of type LONG").wait_for()
    assert dialog(page).get_by_role("button", name="Save").is_disabled()
    value.fill("60000")
    wait_until(lambda: dialog(page).get_by_role("button", name="Save").is_enabled(), timeout_s=10)
    dialog(page).get_by_role("button", name="Save").click()
    dialog(page).get_by_text(f"Type {topic} first").wait_for()  # for that deletes records
    assert v1.get(f"/v1/topics/{topic}")["config"].get("retention.ms", {"source": ""})["source"] != "topic"
    dialog(page).get_by_label(f"Type {topic} to confirm").fill(topic)
    dialog(page).get_by_role("button", name="Save").click()
    page.get_by_text("60 s · set for this topic").wait_for()
    assert v1.get(f"/v1/topics/{topic}")["config"]["retention.ms"] == {"value": "60000", "source": "topic"}


def test_what_is_produced_is_shown_with_its_key_headers_and_every_protocol(page: Any, v1: V1, topic: str) -> None:
    page.goto(f"/topics/{topic}?tab=produce")
    page.get_by_label("Key (empty: none)").fill("k1")
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_label("Value", exact=True).fill('{"amount": 5')
    page.get_by_text("Not JSON: Expecting ',' delimiter in line 1, column 13").wait_for()
    page.get_by_label("Value", exact=True).fill('{"amount": 5}')
    page.get_by_label("Headers").fill("source: atm\nsource: web")
    page.get_by_label("Partition (empty").fill("1")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("Stored in partition 1 at offset 0").wait_for()
    event = v1.get(f"/v1/topics/{topic}/partitions/1/events/0")
    assert (event["key"], event["value"], event["headers"]) == ("k1", {"amount": 5}, [["source", "atm"], ["source", "web"]])
    page.get_by_role("button", name="Show", exact=True).click()
    assert dialog(page).locator(".headrace-value").inner_text() == '{\n  "amount": 5\n}'
    dialog(page).get_by_role("tab", name="Headers (2)").click()
    dialog(page).get_by_text("atm").wait_for()
    dialog(page).get_by_role("tab", name="Through every protocol").click()
    for protocol in ("Kafka", "AMQP 0-9-1", "HTTP"):
        dialog(page).get_by_role("heading", name=protocol).wait_for()


def test_records_are_browsed_forth_and_back_and_the_address_leads_to_the_same_page(page: Any, v1: V1, topic: str) -> None:
    v1.publish(topic, *(f"number {number}" for number in range(120)), partition=0)
    page.goto(f"/topics/{topic}?tab=messages")
    page.get_by_text("50 of 120").wait_for()
    assert values(page) == [f"number {number}" for number in range(119, 69, -1)]
    page.get_by_role("button", name="Older").click()
    wait_until(lambda: values(page)[0] == "number 69", timeout_s=10)
    assert values(page) == [f"number {number}" for number in range(69, 19, -1)]
    page.wait_for_url("**at=20.0**")
    page.reload()
    page.get_by_text("50 of 120").wait_for()
    assert values(page) == [f"number {number}" for number in range(69, 19, -1)]
    page.get_by_role("button", name="Newer").click()
    wait_until(lambda: values(page)[0] == "number 119", timeout_s=10)
    page.goto(f"/topics/{topic}?tab=messages&from=7&partition=0")
    page.get_by_text("50 of 120").wait_for()
    assert values(page)[:2] == ["number 7", "number 8"]


def test_an_offset_with_many_digits_stands_on_one_line(page: Any, v1: V1, topic: str) -> None:
    for _ in range(11):
        v1.publish(topic, *(["x" * 400] * 1000), partition=0)
    page.goto(f"/topics/{topic}?tab=messages")
    newest = page.get_by_role("button", name="Open offset 10999")
    newest.wait_for()
    assert newest.evaluate("button => {const text = document.createRange(); text.selectNodeContents(button);"
                           "return text.getClientRects().length}") == 1  # fmt: skip


def test_records_are_shown_from_an_offset_a_time_and_a_key_on(page: Any, v1: V1, topic: str) -> None:
    began_s = int(time.time()) - 3600
    events = [
        {"key": f"k{n % 3}", "value": f"minute {n}", "timestamp": (began_s + 60 * n) * 1000, "partition": 0} for n in range(30)
    ]
    assert v1.ask("POST", f"/v1/topics/{topic}/events", events, headers={"Content-Type": "application/json"}).status == 200
    page.goto(f"/topics/{topic}?tab=messages")
    page.get_by_text("30 of 30").wait_for()
    for place, label, text in (
        ("From an offset", "Offset", "21"),
        ("From a time", "Time, 2026", datetime.fromtimestamp(began_s + 60 * 21, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),
    ):
        page.get_by_label("Show", exact=True).click()
        page.get_by_role("option", name=place).click()
        page.get_by_role("textbox", name=label).fill(text)
        page.get_by_role("textbox", name=label).press("Enter")
        page.get_by_text("9 of 30").wait_for()
        assert values(page) == [f"minute {n}" for n in range(21, 30)], place
        page.goto(f"/topics/{topic}?tab=messages")
        page.get_by_text("30 of 30").wait_for()
    page.goto(f"/topics/{topic}?tab=messages&from=oldest&q=k1&in=whole-key")
    page.get_by_text("10 found in 30 of about 30 records · that was all · Kafka's Java client and Headrace put").wait_for()
    assert values(page) == [f"minute {n}" for n in range(1, 30, 3)]


def test_a_search_finds_in_key_value_and_headers_and_is_kept_in_the_browser(page: Any, v1: V1, topic: str) -> None:
    events = [{"key": f"key {n}", "value": f"value {n}", "headers": [["n", str(n)]], "partition": n % 2} for n in range(300)]
    events[17]["key"], events[123]["value"], events[250]["headers"] = "a NEEDLE", "Needles", [["needle", "x"]]
    assert v1.ask("POST", f"/v1/topics/{topic}/events", events, headers={"Content-Type": "application/json"}).status == 200
    page.goto(f"/topics/{topic}?tab=messages&from=oldest")
    page.get_by_label("Text to find").fill("needle")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("3 found in 300 of about 300 records · that was all").wait_for()
    assert sorted(values(page)) == ["Needles", "value 17", "value 250"]
    page.get_by_role("button", name="Saved searches").click()
    page.get_by_label("Keep this search as").fill("my needles")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("button", name="my needles").wait_for()
    page.goto(f"/topics/{topic}?tab=messages")
    page.get_by_text("50 of 300").wait_for()
    page.get_by_role("button", name="Saved searches").click()
    page.get_by_role("button", name="my needles").click()
    page.get_by_text("3 found in 300 of about 300 records · that was all").wait_for()


def test_live_shows_what_comes_and_lets_go_of_the_stream_when_it_is_left(page: Any, v1: V1, topic: str) -> None:
    v1.publish(topic, "old")
    page.goto(f"/topics/{topic}?tab=live")
    page.get_by_text("Waiting for records").wait_for()
    wait_until(lambda: _arrives(page, v1, topic), timeout_s=20, what="the tail")
    v1.publish(topic, "last", partition=0)
    wait_until(lambda: values(page)[:1] == ["last"], timeout_s=20)
    assert "old" not in values(page)
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused: 0 came since").wait_for()
    v1.publish(topic, "meanwhile", partition=0)
    page.get_by_text("Paused: 1 came since").wait_for()
    assert "meanwhile" not in values(page)
    page.get_by_role("button", name="Go on").click()
    wait_until(lambda: values(page)[:1] == ["meanwhile"], timeout_s=10)
    page.get_by_role("tab", name="Overview").click()
    page.get_by_text("on disk").wait_for()


def _arrives(page: Any, v1: V1, topic: str) -> bool:
    v1.publish(topic, "new", partition=0)
    return "new" in (values(page) if page.locator(".headrace-events:visible").count() else [])


HOSTILE = {
    "script": "<script>alert('s')</script><img src=x onerror=\"alert('i')\">{{constructor.constructor('alert(1)')()}}",
    "direction": "\u202egnp.exe \u05d0\u05d1\u05d2 \u2066x",
    "surrogate": '{"half": "\\ud800"}',
    "control": "\x00\x1b[31m\x07 end",
}


def test_hostile_records_are_shown_as_text(page: Any, v1: V1, topic: str) -> None:
    events: list[dict[str, object]] = [
        {"key": text, "value": text, "headers": [[text[:20], text]], "partition": 0} for text in HOSTILE.values()
    ]
    events += [{"value": "x" * 1_000_000, "partition": 0}, {"value_base64": "//4AgA==", "partition": 0}]
    assert v1.ask("POST", f"/v1/topics/{topic}/events", events, headers={"Content-Type": "application/json"}).status == 200
    page.goto(f"/topics/{topic}?tab=messages&from=oldest")
    page.get_by_text("6 of 6").wait_for()
    shown = values(page)
    assert shown[0] == HOSTILE["script"]
    assert shown[1] == "‹U+202E›gnp.exe \u05d0\u05d1\u05d2 ‹U+2066›x"
    assert shown[2] == HOSTILE["surrogate"]
    assert shown[4] == "x" * 300 + " …"
    for offset in range(6):
        page.get_by_role("button", name=f"Open offset {offset}", exact=True).click()
        value = dialog(page).locator(".headrace-value")
        value.wait_for()
        if offset == 4:
            assert value.inner_text().endswith("… 934,464 bytes more")
        if offset == 5:
            assert value.inner_text().startswith("00000000  ff fe 00 80")
        page.get_by_role("button", name="Close").click()
        value.wait_for(state="detached")
    assert page.title() == f"{topic} · Headrace"


def test_protobuf_is_read_by_a_schema_that_is_pasted(page: Any, v1: V1, topic: str) -> None:
    schema, data = described()
    event = {"value_base64": b64encode(data).decode(), "partition": 0}
    assert v1.ask("POST", f"/v1/topics/{topic}/events", event, headers={"Content-Type": "application/json"}).status == 200
    page.goto(f"/topics/{topic}?tab=messages&record=0:0")
    dialog(page).get_by_role("button", name="Protobuf").click()
    dialog(page).get_by_label("Descriptor set in base64").fill(schema)
    dialog(page).get_by_label("Message", exact=True).click()
    page.get_by_role("option", name="google.protobuf.Struct").click()
    wait_until(lambda: "<b>ann</b>" in dialog(page).locator(".headrace-value").inner_text(), timeout_s=20)


def test_avro_is_read_by_a_schema_that_is_kept_for_the_topic_and_forgotten(page: Any, v1: V1, topic: str) -> None:
    def record(note: bytes) -> bytes:
        return CONFLUENT + zigzag(8) + zigzag(1) + sized(note) + b"\0"

    contents = [
        CONFLUENT + DATA,
        record(HOSTILE_TEXT.encode()),
        b"no Avro",
        record(b"w" * 900_000),
        record(b"\xff\xed\xa0\x80"),
    ]
    events = [{"value_base64": b64encode(content).decode(), "partition": 0} for content in contents]
    assert v1.ask("POST", f"/v1/topics/{topic}/events", events, headers={"Content-Type": "application/json"}).status == 200
    address = f"/topics/{topic}?tab=messages&from=oldest"
    page.goto(f"{address}&record=0:0")
    dialog(page).get_by_role("button", name="Avro").click()
    dialog(page).get_by_text("Avro can't be read without the schema").wait_for()
    dialog(page).get_by_label("Schema of Avro").fill('{"type": "record"}')
    dialog(page).get_by_text('There is no name in {"type": "record"}').wait_for()
    dialog(page).get_by_label("Schema of Avro").fill(AVRO)
    dialog(page).get_by_text("schema id 42").wait_for()
    value = dialog(page).locator(".headrace-value")
    wait_until(lambda: value.inner_text() == json.dumps(json.loads(LINE), indent=2), timeout_s=10)
    page.get_by_role("button", name="Close").click()
    value.wait_for(state="detached")
    wait_until(lambda: values(page)[:1] == [LINE], timeout_s=10, what="rows by the schema")
    shown = values(page)
    assert "<script>alert(1)</script>\\u202egnp.exe" in shown[1]
    assert shown[2].startswith("(Not Avro by this schema: ")
    assert shown[2].endswith(" no Avro")
    assert shown[3].endswith("w …")
    assert "\ufffd" in shown[4]
    for offset in range(1, 5):
        page.get_by_role("button", name=f"Open offset {offset}", exact=True).click()
        wait_until(lambda: bool(value.inner_text()), timeout_s=10)
        if offset == 2:
            dialog(page).get_by_text("Not Avro by this schema").wait_for()
            assert value.inner_text() == "no Avro"
        page.get_by_role("button", name="Close").click()
        value.wait_for(state="detached")
    page.goto(f"{address}&q=%22id%22%3A%207")  # "id": 7 is in no bytes
    page.get_by_text("1 found in 5 of about 5 records · that was all").wait_for()
    assert values(page) == [LINE]
    page.goto(address)
    wait_until(lambda: values(page)[:1] == [LINE], timeout_s=10, what="the schema to be kept")
    page.get_by_role("button", name="Formats (value: Avro)").click()
    dialog(page).get_by_role("button", name="Forget").click()
    wait_until(lambda: values(page)[2] == "no Avro", timeout_s=10)
    page.reload()
    page.get_by_text("5 of 5").wait_for()
    page.get_by_role("button", name="Formats", exact=True).wait_for()
    assert values(page)[2] == "no Avro"


def test_a_schema_comes_from_a_file_and_keys_have_one_of_their_own(page: Any, v1: V1, topic: str) -> None:
    event = {"key_base64": b64encode(zigzag(4711)).decode(), "value": "plain", "partition": 0}
    assert v1.ask("POST", f"/v1/topics/{topic}/events", event, headers={"Content-Type": "application/json"}).status == 200
    page.goto(f"/topics/{topic}?tab=messages")
    page.get_by_text("1 of 1").wait_for()
    page.get_by_role("button", name="Formats", exact=True).click()
    page.get_by_label("Format of the key").get_by_role("button", name="Avro").click()
    chosen = dialog(page).locator("input[type=file]")
    chosen.wait_for(state="attached")
    chosen.set_input_files({"name": "key.avsc", "mimeType": "application/json", "buffer": b'"long"'})
    wait_until(lambda: cells(page, ".headrace-events:visible", 4) == ["4711"], timeout_s=10)
    page.get_by_role("button", name="Close").click()
    page.get_by_label("Text to find").fill("4711")
    page.get_by_label("Where").click()
    page.get_by_role("option", name="the whole key").click()
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("1 found in 1 of about 1 records · that was all").wait_for()


def test_ten_thousand_partitions_are_shown_a_page_at_a_time(page: Any, v1: V1) -> None:
    assert v1.ask("POST", "/v1/topics", {"name": "wide", "partitions": 10_000}).status == 201
    v1.publish("wide", "there", partition=9_999)
    page.goto("/topics/wide")
    page.get_by_text("10,000").wait_for()
    assert cells(page, ".headrace-list:visible", 1) == [str(index) for index in range(50)]
    page.get_by_role("button", name="On", exact=True).click()
    wait_until(lambda: cells(page, ".headrace-list:visible", 1)[0] == "50", timeout_s=10)
    page.goto("/topics/wide?tab=messages&partition=9999")
    page.get_by_text("1 of 1").wait_for()
    assert values(page) == ["there"]
    v1.ask("DELETE", "/v1/topics/wide")


def test_a_narrow_screen_has_all_of_it(browser: Any, server: HeadraceServer, v1: V1, topic: str) -> None:
    v1.publish(topic, "x" * 500, partition=0)
    with a_page(browser, server, width=390) as page:
        for tab in ("overview", "messages", "produce", "settings"):
            page.goto(f"/topics/{topic}?tab={tab}")
            page.get_by_role("heading", name=topic).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, tab
