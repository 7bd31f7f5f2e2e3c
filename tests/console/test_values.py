"""What is typed and what is shown: always text, whatever the bytes are."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed")

from headrace.console.pages.group.reset import WrongTarget, back_of, wanted_of
from headrace.console.pages.topic.produce import WrongInput, event_of
from headrace.console.pages.topic.record import place_of
from headrace.console.pages.topic.saved import kept_filters
from headrace.console.pages.topic.settings import meaning
from headrace.console.parts.values import as_format, one_line
from headrace.console.protobuf import WrongSchema, as_json, read_schema


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "auto", "(none)"),
        (b'{"a":1}', "auto", '{\n  "a": 1\n}'),
        (b'{"a":1}', "text", '{"a":1}'),
        (b"plain", "json", "(this is no JSON)\nplain"),
        (b"\xff\x00", "auto", "00000000  ff 00                                            .."),
        (b"\xffx", "text", "\ufffdx"),
        (b'"\\ud800"', "auto", '"\\ud800"'),
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


def test_what_is_typed_becomes_an_event() -> None:
    assert event_of("json", "k", '{"a": 1}', "x: 1\n\nx: a:b", 2) == {
        "key": "k", "value": '{"a": 1}', "headers": [["x", "1"], ["x", "a:b"]], "partition": 2
    }  # fmt: skip
    assert event_of("none", "", "left over", "", None) == {"value": None, "headers": []}
    assert event_of("base64", None, "/wA=", "", None) == {"value_base64": "/wA=", "headers": []}
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


def test_a_reset_is_taken_back_with_as_few_requests_as_can_be() -> None:
    moved = [
        {"topic": "a", "partition": 0, "before": 4, "after": 0},
        {"topic": "a", "partition": 1, "before": 4, "after": 0},
        {"topic": "a", "partition": 2, "before": None, "after": 0},
        {"topic": "a", "partition": 3, "before": 0, "after": 0},
        {"topic": "b", "partition": 0, "before": 4, "after": 0},
    ]
    assert back_of(moved) == [{"topic": "a", "to": 4, "partitions": [0, 1]}, {"topic": "b", "to": 4, "partitions": [0]}]


@pytest.mark.parametrize("text", [None, "", "[]", "{", "1", '{"a": 1}', '"' * 100, "[" * 100_000])
def test_what_a_browser_kept_and_is_no_filter_is_passed_over(text: object) -> None:
    assert kept_filters(text) == {}


def test_what_a_browser_kept_is_cut_to_what_was_put_there() -> None:
    assert kept_filters('{"n": {"q": "x", "in": 1, "script": "y"}}') == {"n": {"q": "x", "in": "1"}}


def test_a_place_in_an_address() -> None:
    assert place_of("3:17") == (3, 17)
    assert [place_of(text) for text in ("", "3", "3:", ":1", "a:b", "-1:2", "1:" + "9" * 20)] == [None] * 7


def test_units_of_settings() -> None:
    assert meaning("retention.ms", "86400000") == "24 h"
    assert meaning("retention.bytes", "-1") == "no limit"
    assert meaning("compression.gzip.level", "-1") == ""
    assert meaning("flush.messages", str(2**63 - 1)) == "never"
    assert meaning("cleanup.policy", "delete") == ""


def described() -> tuple[str, bytes]:
    """A schema with one message that has a map, in base64, and a message of it."""
    descriptor = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    struct = pytest.importorskip("google.protobuf.struct_pb2")
    file = descriptor.FileDescriptorProto()
    struct.DESCRIPTOR.CopyToProto(file)
    message = struct.Struct()
    message.update({"name": "<b>ann</b>", "amount": 5})
    schema = descriptor.FileDescriptorSet(file=[file]).SerializeToString()
    return b64encode(schema).decode(), message.SerializeToString(deterministic=True)


def test_protobuf_is_shown_by_the_schema_that_is_given() -> None:
    text, data = described()
    schema = read_schema(text[:20] + "\n" + text[20:])
    assert schema.names == ("google.protobuf.ListValue", "google.protobuf.Struct", "google.protobuf.Value")
    assert json.loads(as_json(schema, "google.protobuf.Struct", data)) == {"name": "<b>ann</b>", "amount": 5}
    assert as_json(schema, "google.protobuf.Struct", b"\0\0\0\0\1\0" + data, 6) == as_json(
        schema, "google.protobuf.Struct", data
    )
    for name, wrong in (("google.protobuf.Struct", b"\xff\xff"), ("nothing", data), ("google.protobuf.Struct", b"x" * 2**21)):
        with pytest.raises(WrongSchema):
            as_json(schema, name, wrong)


@pytest.mark.parametrize("text", ["", "***", b64encode(b"\xff\xff\xff").decode(), b64encode(b"\x0a\x05\x0a\x03abc").decode()])
def test_what_is_no_schema_is_refused(text: str) -> None:
    described()
    with pytest.raises(WrongSchema):
        read_schema(text)
