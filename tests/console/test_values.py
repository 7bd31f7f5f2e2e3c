"""What is typed and what is shown: always text, whatever the bytes are."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed")

from headrace.console.pages.group.reset import WrongTarget, chosen_of, exactly, wanted_of
from headrace.console.pages.topic.produce import WrongInput, event_of
from headrace.console.pages.topic.record import place_of
from headrace.console.pages.topic.saved import kept_filters
from headrace.console.pages.topic.settings import loses, meaning
from headrace.console.parts.values import as_format, one_line, prose, visible


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "auto", "(none)"),
        (b'{"a":1}', "auto", '{\n  "a": 1\n}'),
        (b'{"a":1}', "text", '{"a":1}'),
        (b"plain", "json", "(this is no JSON)\nplain"),
        (b"\xff\x00", "auto", "00000000  ff 00                                            .."),
        (b"\xffx", "text", "\ufffdx"),
        (b"a\x02b", "auto", "00000000  61 02 62                                         a.b"),
        (b"\x1b[31mred\tand\n", "auto", "\x1b[31mred\tand\n"),
        ("é".encode() * 40_000, "auto", "é" * 32_768 + "\n… 14,464 bytes more"),
        (b"x" + "é".encode() * 40_000, "auto", "x" + "é" * 32_767 + "\n… 14,465 bytes more"),
        (b'"\\ud800"', "auto", '"\\ud800"'),
        ('"\u202eb"'.encode(), "auto", '"\\u202eb"'),
        ('"\u202eb"'.encode(), "text", '"\u202eb"'),
        (b"[" * 60_000, "auto", "[" * 60_000),
        (b"9" * 10_000, "auto", "9" * 10_000),
        (b"x" * 70_000, "auto", "x" * 65_536 + "\n… 4,464 bytes more"),
    ],
)
def test_bytes_become_text_that_can_be_sent(data: bytes | None, form: str, text: str) -> None:
    shown = as_format(data, form)
    assert shown == text
    shown.encode()


def test_what_turns_the_direction_of_writing_is_written_out_in_a_row() -> None:
    assert one_line("a\u202eb\nc\x00\ud800") == "a‹U+202E›b c‹U+0000›\\ud800"
    assert one_line("x" * 11, 10) == "x" * 10 + " …"
    assert visible("a\u202eb\n\tc\x00\ud800") == "a‹U+202E›b\n\tc‹U+0000›\\ud800"


def test_what_is_typed_becomes_an_event() -> None:
    assert event_of("json", "k", '{"a": 1}', "x: 1\n\nx: a:b", 2) == {
        "key": "k", "value": '{"a": 1}', "headers": [["x", "1"], ["x", "a:b"]], "partition": 2
    }  # fmt: skip
    assert event_of("none", "", "left over", "", None) == {"value": None, "headers": []}
    assert event_of("base64", None, "/wA=", "", None) == {"value_base64": "/wA=", "headers": []}
    assert event_of("text", "/w==", "v", "x: a\u2028b", None, key_kind="base64", time="2026-03-01T09:30:00Z") == {
        "key_base64": "/w==", "value": "v", "headers": [["x", "a\u2028b"]], "timestamp": "2026-03-01T09:30:00Z"
    }  # fmt: skip
    assert event_of("text", None, "", "", None, time=" 1700000000000 ")["timestamp"] == 1_700_000_000_000
    with pytest.raises(WrongInput, match="The key is not base64"):
        event_of("text", "***", "", "", None, key_kind="base64")
    for wrong in (("json", "{"), ("json", "[" * 100_000), ("base64", "***")):
        with pytest.raises(WrongInput):
            event_of(wrong[0], None, wrong[1], "", None)
    with pytest.raises(WrongInput, match="Line 2"):
        event_of("text", None, "", "a: 1\nb", None)


def test_where_a_group_is_moved_to() -> None:
    assert wanted_of("latest", "passed over") == {"to": "latest"}
    assert wanted_of("offset", " 7 ") == {"to": 7}
    assert wanted_of("shift", "-7") == {"shift": -7}
    assert wanted_of("time", "2026-03-01T09:30:00Z") == {"to": "2026-03-01T09:30:00Z"}
    for wrong in (("offset", "-1"), ("offset", ""), ("shift", "x"), ("time", " ")):
        with pytest.raises(WrongTarget):
            wanted_of(*wrong)


def test_what_a_group_is_moved_in() -> None:
    assert chosen_of("", "left over") == {"all_topics": True}
    assert chosen_of("orders", " ") == {"topic": "orders"}
    assert chosen_of("orders", "0, 2") == {"topic": "orders", "partitions": [0, 2]}
    with pytest.raises(WrongTarget):
        chosen_of("orders", "first")


def test_what_a_preview_has_shown_is_what_is_asked_for() -> None:
    moved = [
        {"topic": "a", "partition": 0, "before": 4, "after": 0},
        {"topic": "a", "partition": 1, "before": None, "after": 7},
        {"topic": "b", "partition": 0, "before": 4, "after": None},
    ]
    assert exactly(moved) == {"a": {"0": 0, "1": 7}, "b": {"0": None}}


@pytest.mark.parametrize("found", [None, "", [], 1, {"a": 1}, {"a": []}, '{"a": {}}'])
def test_what_a_browser_kept_and_is_no_filter_is_passed_over(found: object) -> None:
    assert kept_filters(found) == {}


def test_what_a_browser_kept_is_cut_to_what_was_put_there() -> None:
    assert kept_filters({"n": {"q": "x", "in": 1, "script": "y"}}) == {"n": {"q": "x", "in": "1"}}


def test_a_place_in_an_address() -> None:
    assert place_of("3:17") == (3, 17)
    assert [place_of(text) for text in ("", "3", "3:", ":1", "a:b", "-1:2", "1:" + "9" * 20)] == [None] * 7


def test_units_of_settings() -> None:
    assert meaning("retention.ms", "86400000") == "24 h"
    assert meaning("retention.bytes", "-1") == "no limit"
    assert meaning("compression.gzip.level", "-1") == ""
    assert meaning("flush.messages", str(2**63 - 1)) == "never"
    assert meaning("cleanup.policy", "delete") == ""


def test_words_that_are_typed_are_quoted_as_in_a_text() -> None:
    assert prose("`delete` drops, `compact` keeps") == "‘delete’ drops, ‘compact’ keeps"
    assert prose("one ` alone") == "one ` alone"


@pytest.mark.parametrize(
    ("name", "before", "after", "lost"),
    [
        ("retention.ms", "604800000", "60000", True),
        ("retention.ms", "-1", "60000", True),
        ("retention.ms", "60000", "604800000", False),
        ("retention.ms", "60000", "-1", False),
        ("retention.ms", "60000", "soon", False),  # which the server refuses
        ("retention.bytes", "-1", "0", True),
        ("retention.bytes", "-1", None, False),
        ("cleanup.policy", "delete", "compact", True),
        ("cleanup.policy", "delete", "delete", False),
        ("max.message.bytes", "100", "10", False),
    ],
)
def test_settings_that_delete_records_are_known(name: str, before: str, after: str | None, lost: bool) -> None:
    assert loses(name, before, after) is lost
