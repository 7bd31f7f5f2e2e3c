"""Avro as text: by vectors worked out by hand from the specification, and by schemas and bytes that nobody meant well with."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from tests.console.avro_encoding import zigzag

from headrace.console.formats.avro import CUT, MOST_DEPTH, as_json
from headrace.console.formats.avro_schema import MOST_SCHEMA_BYTES, canonical, fingerprint, read_schema
from headrace.console.formats.errors import Undecodable, WrongSchema

MOST = 64 * 1024
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def shown(schema: object, data: bytes, *, start: int = 0, most: int = MOST, indent: bool = False) -> str:
    return as_json(read_schema(json.dumps(schema)), data, start, most, indent=indent)


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


def fixed(size: int, **more: object) -> dict[str, object]:
    return {"type": "fixed", "name": "F", "size": size, **more}


PAIR = {"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "data", "text"),
    [
        # what the specification shows itself
        ("long", "00", "0"),
        ("long", "01", "-1"),
        ("long", "02", "1"),
        ("long", "03", "-2"),
        ("long", "7f", "-64"),
        ("long", "8001", "64"),
        ("string", "06666f6f", '"foo"'),
        (PAIR, "3606666f6f", '{"a": 27, "b": "foo"}'),
        ({"type": "array", "items": "long"}, "04063600", "[3, 27]"),
        (["null", "string"], "00", "null"),
        (["null", "string"], "020261", '"a"'),
        # and what follows from it
        ("null", "", "null"),
        ("boolean", "00", "false"),
        ("boolean", "01", "true"),
        ("int", "ffffffff0f", "-2147483648"),
        ("long", "feffffffffffffffff01", "9223372036854775807"),
        ("long", "ffffffffffffffffff01", "-9223372036854775808"),
        ("float", "cdcccc3d", "0.1"),
        ("float", "ffff7f7f", "3.4028234663852886e+38"),
        ("double", "9a9999999999b93f", "0.1"),
        ("double", "000000000000f87f", '"NaN"'),
        ("double", "000000000000f0ff", '"-Infinity"'),
        ("bytes", "04c3a9", '"é"'),
        ("bytes", "04ff00", '{"base64": "/wA="}'),
        ("string", "04ff61", '"\ufffda"'),
        ({"type": "array", "items": "long"}, "030406360200" + "00", "[3, 27, 0]"),  # a block that says its size, another one
        ({"type": "array", "items": "long"}, "00", "[]"),
        ({"type": "map", "values": "boolean"}, "0402610102620000", '{"a": true, "b": false}'),
        ({"type": "map", "values": "boolean"}, "00", "{}"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "02", '"B"'),
        (fixed(3), "00ff10", '"00ff10"'),
        ({"type": "record", "name": "R", "fields": []}, "", "{}"),
        (logical("bytes", "decimal", precision=6, scale=2), "0404e2", "12.50"),
        (logical("bytes", "decimal", precision=6, scale=2), "02fb", "-0.05"),
        (logical("bytes", "decimal", precision=6), "0207", "7"),
        (fixed(2, logicalType="decimal", precision=4, scale=4), "ffff", "-0.0001"),
        (logical("int", "date"), "00", '"1970-01-01"'),
        (logical("int", "date"), "01", '"1969-12-31"'),
        (logical("int", "date"), "feffffff0f", "2147483647"),
        (logical("int", "time-millis"), "02", '"00:00:00.001"'),
        (logical("int", "time-millis"), "01", "-1"),
        (logical("long", "time-micros"), "02", '"00:00:00.000001"'),
        (logical("long", "timestamp-millis"), "01", '"1969-12-31T23:59:59.999Z"'),
        (logical("long", "timestamp-micros"), "02", '"1970-01-01T00:00:00.000001Z"'),
        (logical("long", "timestamp-nanos"), "02", '"1970-01-01T00:00:00.000000001Z"'),
        (logical("long", "timestamp-millis"), "feffffffffffffffff01", "9223372036854775807"),
        (logical("long", "local-timestamp-millis"), "00", '"1970-01-01T00:00:00.000"'),
        (logical("string", "uuid"), "0461" + "62", '"ab"'),
        (fixed(16, logicalType="uuid"), "00112233445566778899aabbccddeeff", '"00112233-4455-6677-8899-aabbccddeeff"'),
        (
            fixed(12, logicalType="duration"),
            "010000000200000003000000",
            '{"months": 1, "days": 2, "milliseconds": 3}',
        ),
        # a logical type that is not known, or does not fit, is none
        (logical("long", "moon-phase"), "02", "1"),
        (logical("string", "date"), "0261", '"a"'),
        (logical("bytes", "decimal", precision=2, scale=3), "0261", '"a"'),
        (fixed(2, logicalType="uuid"), "0102", '"0102"'),
    ],
)
def test_data_is_shown_as_the_specification_encodes_it(schema: object, data: str, text: str) -> None:
    assert shown(schema, bytes.fromhex(data)) == text


def test_a_record_is_indented_as_json_is() -> None:
    data = bytes.fromhex("0e020261040278027900")
    found = shown(ORDER, data, indent=True)
    assert found == json.dumps({"id": 7, "note": "a", "tags": ["x", "y"]}, indent=2)


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ("long", "", "the data ends where a number should be, byte 0"),
        ("long", "ff" * 10, "a number of more than 64 bits, byte 0"),
        ("long", "80" * 9 + "02", "a number of more than 64 bits, byte 0"),
        ("int", "8080808010", "2147483648 is no int of 32 bits, byte 5"),
        ("boolean", "02", "a boolean is 0 or 1, not 2, byte 1"),
        ("string", "06666f", "3 bytes should follow, and there are 2, byte 1"),
        ("string", "01", "-1 bytes should follow, and there are 0, byte 1"),
        ("bytes", "feffffffffffffffff01", "9,223,372,036,854,775,807 bytes should follow, and there are 0, byte 10"),
        ("long", "0200", "1 bytes are left over behind long"),
        (["null", "long"], "04", "a union of 2 types has no type 2, byte 1"),
        (["null", "long"], "01", "a union of 2 types has no type -1, byte 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "E has no symbol 1, byte 1"),
        ({"type": "array", "items": "long"}, "0301", "a block of items takes less than no bytes, byte 2"),
        (ORDER, "0e00020461", "2 bytes should follow, and there are 1 in tags.0, byte 4"),
        (fixed(2**31 - 1), "00", "2,147,483,647 bytes should follow, and there are 1, byte 0"),
    ],
)
def test_what_the_schema_does_not_say_is_named_with_its_place(schema: object, data: str, problem: str) -> None:
    with pytest.raises(Undecodable) as raised:
        shown(schema, bytes.fromhex(data))
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (
            {"type": "array", "items": "null"},
            bytes.fromhex("feffffffffffffffff01"),
        ),  # 2^63-1 of them, none of which takes a byte
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, bytes.fromhex("ffffffffffffffffff0100")),
        ({"type": "array", "items": fixed(0)}, bytes.fromhex("feffffffffffffffff01")),
        (
            {"type": "array", "items": {"type": "record", "name": "N", "fields": [{"name": "n" * 9000, "type": "null"}]}},
            b"\xfe\x7f",
        ),
        ({"type": "array", "items": "long"}, b"\x80\x80\x80\x01" + bytes(1_000_000)),
        ("string", b"\x80\x92\xf4\x01" + b"x" * 2_000_000),
        ("bytes", b"\x80\x92\xf4\x01" + b"\xff" * 2_000_000),
        (fixed(1_000_000), b"\xff" * 1_000_000),
    ],
)
def test_work_and_memory_follow_what_is_shown_and_not_what_the_data_claims(schema: object, data: bytes) -> None:
    compiled = read_schema(json.dumps(schema))
    tracemalloc.start()
    try:
        text = as_json(compiled, data, 0, MOST, indent=False)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text) == MOST + len(CUT)
    assert text.endswith(CUT)
    assert peak_bytes < 16 * 1024 * 1024


def test_values_within_values_have_a_bound() -> None:
    chain = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    deep = bytes([2]) * (MOST_DEPTH - 1) + b"\0"
    assert shown(chain, deep).count("next") == MOST_DEPTH
    with pytest.raises(Undecodable, match="more than 100 values within values"):
        shown(chain, bytes([2]) * 1_000_000 + b"\0")
    with pytest.raises(Undecodable, match="more than 100 values within values"):  # and one that needs no data for it
        shown({"type": "record", "name": "Self", "fields": [{"name": "s", "type": "Self"}]}, b"")


HOSTILE = "<script>alert(1)</script>\u202egnp.exe\u2066\u2028\x00\x1b[31m \u05d0 👨\u200d👩"


def test_hostile_texts_are_escaped_as_json_has_it_and_mean_the_same() -> None:
    data = len(HOSTILE.encode()) * 2
    text = shown("string", zigzag(data // 2) + HOSTILE.encode())
    assert json.loads(text) == HOSTILE
    assert not any(character in text for character in "\u202e\u2066\u2028\x00\x1b")
    assert "👨\u200d👩" in text
    key = shown({"type": "map", "values": "null"}, zigzag(1) + zigzag(data // 2) + HOSTILE.encode() + b"\0")
    assert json.loads(key) == {HOSTILE: None}
    assert "\u202e" not in key


# --- schemas


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "The schema is not JSON: Expecting value in line 1, column 1"),
        ('{"type": ', "The schema is not JSON: Expecting value in line 1, column 10"),
        ("[" * 100_000, "The schema is not JSON that can be read: too deep, or too long a number"),
        ("[" * 200 + "]" * 200, "Types within types more than 100 deep"),
        ("5", "A type is a name, an object or an array, not 5"),
        ('"order"', "There is no type order in this schema, or it is used before it is defined"),
        ("{}", "There is no type in {}"),
        ('{"type": "record"}', 'There is no name in {"type": "record"}'),
        ('{"type": "record", "name": "R"}', "The record R has no list of fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', 'A field of R has no name or no type: {"name": "a"}'),
        ('{"type": "enum", "name": "E", "symbols": [1]}', "The enum E has no list of symbols"),
        ('{"type": "fixed", "name": "F", "size": -1}', "The fixed F has no size"),
        ('{"type": "fixed", "name": "F", "size": true}', "The fixed F has no size"),
        ('{"type": "array"}', 'There are no items in array {"type": "array"}'),
        ('{"type": "map"}', 'There are no values in map {"type": "map"}'),
        ('["int", ["null"]]', "A union can't hold another union"),
        ('["int", "int"]', "A union holds each type once, not twice: int, int"),
        (
            '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}]',
            "The type F is defined twice",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
            "Two fields of R have the same name",
        ),
        ('{"schema": "syntax = 1", "schemaType": "PROTOBUF"}', "That is a schema of PROTOBUF, not of Avro"),
        ('"' + "x" * MOST_SCHEMA_BYTES + '"', "A schema has at most 524,288 bytes"),
        (json.dumps({"type": "fixed", "name": "F", "namespace": "n" * 600, "size": 1}), "A name has at most 512 characters"),
        (
            json.dumps({"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": "int"} for n in range(10_001)]}),
            "A schema has at most 20,000 types and fields",
        ),
    ],
)
def test_what_is_no_schema_is_told_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(WrongSchema) as raised:
        read_schema(text)
    assert str(raised.value).startswith(problem)
    assert "\n" not in str(raised.value)


def test_what_a_registry_answers_is_a_schema() -> None:
    answer = {"subject": "orders-value", "id": 7, "schema": json.dumps(ORDER)}
    assert read_schema(json.dumps(answer)).name == "shop.Order"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
        ("long", -3434872931120570953),
        ("float", 5583340709985441680),
        ("double", -8181574048448539266),
        ("bytes", 5746618253357095269),
        ("string", -8142146995180207161),
    ],
)
def test_fingerprints_are_those_that_avro_publishes(kind: str, expected: int) -> None:
    """share/test/data/schema-tests.txt of Apache Avro, as signed numbers."""
    for text in (f'"{kind}"', f'{{"type": "{kind}", "doc": "x"}}'):
        assert read_schema(text).fingerprint == expected % 2**64


def test_a_record_without_fields_has_its_published_fingerprint() -> None:
    assert read_schema('{"fields":[], "type":"record", "name":"foo"}').fingerprint == -4824392279771201922 % 2**64


def test_the_canonical_form_has_full_names_and_nothing_that_does_not_matter() -> None:
    schema = {
        "type": "record", "name": "R", "namespace": "a.b", "doc": "x", "aliases": ["Old"],
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X"]}, "default": "X", "order": "ignore"},
            {"name": "again", "type": ["null", "E", "a.b.R"]},
            {"name": "f", "type": {"type": "fixed", "name": "c.F", "size": 4, "logicalType": "x"}},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        ],
    }  # fmt: skip
    assert canonical(read_schema(json.dumps(schema)).root) == (
        '{"name":"a.b.R","type":"record","fields":['
        '{"name":"e","type":{"name":"a.b.E","type":"enum","symbols":["X"]}},'
        '{"name":"again","type":["null","a.b.E","a.b.R"]},'
        '{"name":"f","type":{"name":"c.F","type":"fixed","size":4}},'
        '{"name":"m","type":{"type":"map","values":{"type":"array","items":"int"}}}]}'
    )
    assert fingerprint("") == 0xC15D213AA4D7A795
