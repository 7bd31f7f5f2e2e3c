"""How records are read by a schema: what stands before the data, which message it is, what a row, a search and a page show."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.console.avro_encoding import sized, zigzag
from tests.console.test_avro import HOSTILE, ORDER

from headrace.console.formats import protobuf
from headrace.console.formats.errors import Undecodable, WrongSchema
from headrace.console.formats.framing import Frame, frame_of, possible
from headrace.console.formats.reading import LINE_CHARACTERS, Choice, Reader, Reading, choice_of
from headrace.console.parts.values import SHOWN_BYTES
from headrace.console.searching import WHOLE_KEY, Sought, matches

AVRO = json.dumps(ORDER)
DATA = zigzag(7) + zigzag(1) + sized(b"Needle") + zigzag(1) + sized(b"x") + b"\0"
LINE = '{"id": 7, "note": "Needle", "tags": ["x"]}'
CONFLUENT = b"\0" + (42).to_bytes(4, "big")


def avro(**more: Any) -> Reader:
    return Reader(Choice("avro", avro=AVRO, **more))


def single_object(schema: str = AVRO) -> bytes:
    from headrace.console.formats.avro_schema import read_schema

    return b"\xc3\x01" + read_schema(schema).fingerprint.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("data", "indexed", "frame"),
    [
        (CONFLUENT + b"x", False, Frame(5, "schema id 42")),
        (CONFLUENT + b"\x00x", True, Frame(6, "schema id 42, message 0", (0,))),
        (CONFLUENT + b"\x02\x04x", True, Frame(7, "schema id 42, message 2", (2,))),
        (CONFLUENT + b"\x04\x02\x00x", True, Frame(8, "schema id 42, message 1.0", (1, 0))),
    ],
)
def test_the_frame_of_a_schema_registry(data: bytes, indexed: bool, frame: Frame) -> None:
    assert frame_of(data, "confluent", indexed=indexed) == frame


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0\0", b"\1\0\0\0\1", CONFLUENT, CONFLUENT + b"\x01", CONFLUENT + b"\x80\x01", CONFLUENT + b"\xff" * 6],
)
def test_a_frame_that_is_none_is_told(data: bytes) -> None:
    with pytest.raises(Undecodable):
        frame_of(data, "confluent", indexed=True)


def test_framings_that_are_tried() -> None:
    assert possible(b"\0\0\0\0\1x", "auto", indexed=False) == ("confluent", "none")
    assert possible(b"\0", "auto", indexed=False) == ("none",)
    assert possible(b"\0", "auto", indexed=True) == ("confluent",)
    assert possible(b"\x08\x01", "auto", indexed=True) == ("none",)
    assert possible(b"\xc3\x01" + bytes(8), "auto", indexed=False) == ("single", "none")
    assert possible(b"\0\0\0\0\1x", "none", indexed=False) == ("none",)


@pytest.mark.parametrize(
    ("data", "choice", "note"),
    [
        (DATA, {}, ""),
        (CONFLUENT + DATA, {}, "schema id 42"),
        (CONFLUENT + DATA, {"framing": "confluent"}, "schema id 42"),
        (b"123456789" + DATA, {"framing": "skip", "skipped": 9}, "9 bytes passed over"),
    ],
)
def test_avro_is_read_behind_what_stands_before_it(data: bytes, choice: dict[str, Any], note: str) -> None:
    reader = avro(**choice)
    shown = reader.opened(data)
    assert json.loads(shown.text) == json.loads(LINE)
    assert (shown.note, shown.problem) == (note, "")
    assert reader.line(data) == LINE
    assert reader.searched(data) == LINE


def test_a_single_object_tells_whether_it_is_of_this_schema() -> None:
    shown = avro().opened(single_object() + DATA)
    assert json.loads(shown.text) == json.loads(LINE)
    assert shown.note.startswith("single object, fingerprint ")
    other = single_object('"int"') + DATA
    for reader in (avro(), avro(framing="single")):
        assert "another schema wrote this: its fingerprint is 7275d51a3f395c8f" in reader.opened(other).problem


def test_plain_data_that_begins_like_a_registry_s_is_found_out() -> None:
    data = zigzag(0) + zigzag(0) + zigzag(2) + sized(b"a") + sized(b"b") + b"\0"
    assert data[0] == 0
    assert len(data) > 5
    shown = avro().opened(data)
    assert json.loads(shown.text) == {"id": 0, "note": None, "tags": ["a", "b"]}
    assert shown.note == ""
    assert avro(framing="confluent").opened(data).problem


def test_what_can_t_be_read_is_shown_as_its_bytes_with_one_line_beside_it() -> None:
    shown = avro().opened(b"\xff\x00")
    assert shown.text.startswith("00000000  ff 00")
    assert shown.problem == "Not Avro by this schema: the data ends where a number should be in note, byte 2"
    assert avro().opened(b"no Avro").text == "no Avro"
    assert avro().line(b"no Avro").endswith(" no Avro")
    assert avro().searched(b"no Avro") == ""


def test_a_wrong_schema_and_a_missing_one_leave_the_bytes_as_they_are() -> None:
    wrong = Reader(Choice("avro", avro='{"type": "record"}'))
    assert wrong.problem == 'There is no name in {"type": "record"}'
    assert wrong.opened(b'{"a": 1}').text == '{\n  "a": 1\n}'
    assert (wrong.line(b"x"), wrong.searched(b"x"), wrong.by_schema) == (None, "", False)
    missing = Reader(Choice("avro"))
    assert missing.problem == ""
    assert missing.opened(b"x").note == "Avro can't be read without the schema with which it was written"
    assert missing.opened(None).text == "(none)"


def test_a_long_value_is_cut_in_a_page_and_in_a_row() -> None:
    data = zigzag(7) + zigzag(1) + sized(b"w" * 1_000_000) + b"\0"
    assert len(avro().opened(data).text) == SHOWN_BYTES + 2
    line = avro().line(data)
    assert line is not None
    assert len(line) == LINE_CHARACTERS + 2
    assert line.startswith('{"id": 7, "note": "www')


def test_hostile_values_are_harmless_in_rows_and_pages() -> None:
    data = zigzag(7) + zigzag(1) + sized(HOSTILE.encode()) + b"\0"
    line = avro().line(data)
    assert line is not None
    for text in (avro().opened(data).text, line):
        assert "<script>alert(1)</script>" in text
        assert not any(character in text for character in "\u202e\u2066\u2028\x00\x1b")
    bad = zigzag(7) + zigzag(1) + sized(b"\xff\xfe\xed\xa0\x80") + b"\0"
    assert "\ufffd" in avro().opened(bad).text
    key = Reader(Choice("avro", avro='{"type": "map", "values": "long"}'))
    problem = key.opened(zigzag(1) + sized("\u202e\n<b>".encode())).problem
    assert "‹U+202E› <b>" in problem
    assert len(problem.splitlines()) == 1


def test_hex_is_shown_in_rows_when_it_is_chosen() -> None:
    assert Reader(Choice("hex")).line(b"\x00\xff") == "00 ff"
    assert Reader(Choice("hex")).line(bytes(100)) == "00 " * 63 + "00 …"
    assert Reader(Choice("json")).line(b"{}") is None


def test_a_search_looks_at_bytes_and_at_what_they_stand_for() -> None:
    reading = Reading()
    reading.readers["value"] = avro()
    reading.readers["key"] = Reader(Choice("avro", avro='"long"'))
    event = {
        "key_base64": b64encode(zigzag(4711)).decode(),
        "value_base64": b64encode(CONFLUENT + DATA).decode(),
        "headers": [],
    }
    assert matches(event, Sought("needle"), "needle", reading)
    assert matches(event, Sought('"id": 7'), '"id": 7', reading)
    assert not matches(event, Sought('"id": 7'), '"id": 7')
    assert matches(event, Sought("4711", (WHOLE_KEY,)), "4711", reading)
    assert not matches(event, Sought("471", (WHOLE_KEY,)), "471", reading)
    assert reading.lines(event) == {"value": LINE, "key": "4711"}
    assert reading.label == "value: Avro, key: Avro"


def test_a_whole_key_is_exactly_that() -> None:
    for event, expected in (
        ({"key": "a", "headers": []}, True),
        ({"key": "A", "headers": []}, False),
        ({"key": "ab", "headers": []}, False),
        ({"key": None, "headers": []}, False),
        ({"key_base64": "YQ==", "headers": []}, True),
    ):
        assert matches(event, Sought("a", (WHOLE_KEY,)), "a") is expected


@pytest.mark.parametrize(
    "found", [None, [], "avro", {"form": "exe"}, {"form": 5}, {"form": []}, {"framing": {}, "skipped": True}, {"skipped": 1e9}]
)
def test_what_a_browser_kept_and_is_no_choice_is_none(found: object) -> None:
    assert choice_of(found) == Choice()


def test_what_is_kept_is_what_was_chosen() -> None:
    choice = Choice("avro", avro=AVRO, framing="skip", skipped=9)
    assert choice_of(json.loads(json.dumps(choice.remembered))) == choice
    assert Choice().remembered == {}
    assert choice.without_schema() == Choice()
    both = Choice("protobuf", avro=AVRO, protobuf="AA==", message="x")
    assert both.without_schema() == Choice(avro=AVRO)


# --- Protobuf


def described() -> tuple[str, bytes]:
    """A schema with messages that have a map and nest, in base64, and a message of it."""
    descriptor = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    struct = pytest.importorskip("google.protobuf.struct_pb2")
    file = descriptor.FileDescriptorProto()
    struct.DESCRIPTOR.CopyToProto(file)
    message = struct.Struct()
    message.update({"name": "<b>ann</b>", "amount": 5})
    schema = descriptor.FileDescriptorSet(file=[file]).SerializeToString()
    return b64encode(schema).decode(), message.SerializeToString(deterministic=True)


def nested() -> str:
    """Outer { Inner { int32 n = 1; }  string s = 1; } and Other, in a file of its own."""
    descriptor = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    field = descriptor.FieldDescriptorProto
    text = field(name="s", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    number = field(name="n", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    inner = descriptor.DescriptorProto(name="Inner", field=[number])
    file = descriptor.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        message_type=[
            descriptor.DescriptorProto(name="Outer", field=[text], nested_type=[inner]),
            descriptor.DescriptorProto(name="Other", field=[number]),
        ],
    )
    return b64encode(descriptor.FileDescriptorSet(file=[file]).SerializeToString()).decode()


STRUCT = "google.protobuf.Struct"


def test_protobuf_is_shown_by_the_schema_that_is_given() -> None:
    text, data = described()
    schema = protobuf.read_schema(text[:20] + "\n" + text[20:])
    assert schema.names == ("google.protobuf.ListValue", STRUCT, "google.protobuf.Value")
    found = {"name": "<b>ann</b>", "amount": 5}
    assert json.loads(protobuf.as_json(schema, STRUCT, data, indent=True)) == found
    for name, wrong in ((STRUCT, b"\xff\xff"), ("nothing", data), (STRUCT, b"x" * 2**21)):
        with pytest.raises(Undecodable):
            protobuf.as_json(schema, name, wrong, indent=False)
    reader = Reader(Choice("protobuf", protobuf=text, message=STRUCT))
    assert json.loads(reader.opened(data).text) == found
    assert json.loads(reader.opened(CONFLUENT + b"\0" + data).text) == found
    assert reader.opened(CONFLUENT + b"\0" + data).note == f"{STRUCT} · schema id 42, message 0"
    assert "ann" in (reader.line(data) or "")
    assert "ann" in reader.searched(CONFLUENT + b"\0" + data)
    assert reader.opened(b"\xff\xff").text.startswith("00000000  ff ff")
    assert reader.opened(b"\xff\xff").problem.startswith(f"Not Protobuf by this schema: not a {STRUCT}")


@pytest.mark.parametrize(
    ("before", "data", "found", "note"),
    [
        (CONFLUENT + b"\x00", b"\x0a\x01a", {"s": "a"}, "shop.Outer · schema id 42, message 0"),
        (CONFLUENT + b"\x02\x02", b"\x08\x05", {"n": 5}, "shop.Other · schema id 42, message 1"),
        (CONFLUENT + b"\x04\x00\x00", b"\x08\x05", {"n": 5}, "shop.Outer.Inner · schema id 42, message 0.0"),
        (b"", b"\x0a\x01a", {"s": "a"}, "shop.Outer"),
    ],
)
def test_the_indexes_of_a_record_say_which_message_it_is(before: bytes, data: bytes, found: object, note: str) -> None:
    reader = Reader(Choice("protobuf", protobuf=nested()))
    shown = reader.opened(before + data)
    assert json.loads(shown.text) == found
    assert shown.note == note
    assert "no message 7" in reader.opened(CONFLUENT + b"\x02\x0e").problem


SOURCE = """
// what people write
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "org.example";  /* passed over */

message Order {
  reserved 9, 11 to 13; reserved "old";
  enum State { option allow_alias = true; NEW = 0; OPEN = 0; DONE = 1 [deprecated = true]; }
  map<string, Line> lines = 1;
  message Line { sint64 amount = 1; optional int32 count = 2; }
  State state = 2 [(custom).option = { a: [1, 2] }];
  google.protobuf.Timestamp at = 3;
  oneof who { string name = 4; bytes code = 5; }
  repeated int32 numbers = 6;
  .shop.v1.Other other = 7;
}
message Other { bool yes = 1; }
service Orders { rpc Get (Order) returns (Order) { option (x) = "y"; } }
"""


def test_the_text_of_a_proto_file_is_a_schema() -> None:
    pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    reader = Reader(Choice("protobuf", protobuf=SOURCE))
    assert reader.problem == ""
    assert set(reader.messages) >= {"shop.v1.Order", "shop.v1.Order.Line", "shop.v1.Other"}
    line = bytes.fromhex("08031000")  # amount -2, count 0
    order = bytes.fromhex("0a090a01611204") + line + bytes.fromhex("10011a0208012203616e6e320201053a020801")
    shown = reader.opened(order)
    assert json.loads(shown.text) == {
        "lines": {"a": {"amount": "-2", "count": 0}},
        "state": "DONE",
        "at": "1970-01-01T00:00:01Z",
        "name": "ann",
        "numbers": [1, 5],
        "other": {"yes": True},
    }
    assert shown.note == "shop.v1.Order"
    # the entries of the map are no messages of the file: Line is the first in Order
    assert reader.opened(CONFLUENT + b"\x04\x00\x00" + line).note == "shop.v1.Order.Line · schema id 42, message 0.0"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("message {", "Line 1 of the schema: a name is expected and not '{'"),
        ("message A { int32 a = 1; ", "The schema ends within something"),
        ("message A {\n int32 a = x; }", "Line 2 of the schema: a number is expected and not 'x'"),
        ("message A { int32 a 1; }", "Line 1 of the schema: '=' is expected and not '1'"),
        ("message A { Unknown a = 1; }", "Not a schema: "),
        ("message A { int32 a = 99999999999; }", "Not a schema: "),
        ("message A { int32 a = 1; int32 b = 1; }", "Not a schema: "),
        ('import "other.proto";', "Line 1 of the schema: 'other.proto' is imported: give a descriptor set"),
        ('import "google/protobuf/../../os.proto";', "Line 1 of the schema: "),
        ('edition = "2023";', "Line 1 of the schema: editions can't be read as text"),
        ("message A { optional group B = 1 {} }", "Line 1 of the schema: groups can't be read as text"),
        ("message A { ? }", "Line 1 of the schema can't be read: '? }'"),
        ("/* never ends", "Line 1 of the schema can't be read: '/* never ends'"),
        ("message A {" * 1000, "Line 1 of the schema: messages within messages more than 32 deep"),
        ("option x = {" * 50_000, "The schema ends within something"),
    ],
)
def test_what_is_no_proto_file_is_told_with_its_line(source: str, problem: str) -> None:
    pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    with pytest.raises(WrongSchema) as raised:
        protobuf.read_schema(source)
    assert str(raised.value).startswith(problem)
    assert len(str(raised.value).splitlines()) == 1


def test_hostile_texts_in_protobuf_are_escaped() -> None:
    data = b"\x0a" + bytes([len("\u202e<b>\x00".encode())]) + "\u202e<b>\x00".encode()
    shown = Reader(Choice("protobuf", protobuf=nested())).opened(data)
    assert shown.text == '{\n  "s": "\\u202e<b>\\u0000"\n}'


def test_a_message_of_very_many_values_is_not_built_as_json() -> None:
    text, _ = described()
    schema = protobuf.read_schema(text)
    many = b"\x0a\x00" * 500_000  # of ListValue.values, each of them empty
    with pytest.raises(Undecodable, match="a message with more than 50,000 values"):
        protobuf.as_json(schema, "google.protobuf.ListValue", many, indent=True)
    deep = b""
    for _ in range(40):  # a list in a value in a list …
        deep = b"\x32" + bytes(sized_varint(len(deep))) + deep
        deep = b"\x0a" + bytes(sized_varint(len(deep))) + deep
    assert protobuf.as_json(schema, "google.protobuf.ListValue", deep, indent=False).count("[") == 41


def sized_varint(number: int) -> list[int]:
    return [number] if number < 128 else [number & 0x7F | 0x80, *sized_varint(number >> 7)]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_shown_whatever_the_schema(data: bytes) -> None:
    for reader in (avro(), Reader(Choice("protobuf", protobuf=nested())), Reader(Choice("hex")), Reader()):
        shown = reader.opened(data)
        (shown.text + shown.note + shown.problem).encode()
        assert len(shown.problem.splitlines()) <= 1
        (reader.line(data) or "").encode()
        reader.searched(data).encode()


@pytest.mark.parametrize("text", ["", "***", b64encode(b"\xff\xff\xff").decode(), b64encode(b"\x0a\x05\x0a\x03abc").decode()])
def test_what_is_no_descriptor_set_is_refused(text: str) -> None:
    described()
    with pytest.raises(WrongSchema):
        protobuf.read_schema(text)
