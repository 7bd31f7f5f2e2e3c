import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.escapes import BadEscape, unescape
from headrace.cli.parsing import Encoding, RecordParser
from headrace.cli.printing import ENCODERS, BadTemplate, json_writer, template_writer
from headrace.client.kafka import Received

HEADERS = (("a", b"1"), ("b", None), ("a", b"2"))
RECORD = Received("orders", 3, 42, 1_767_225_600_123, "create", b"key", b"value", HEADERS)
BARE = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%s\\n", b"value\n"),
        ("%t [%p] at offset %o: key %k: %s", b"orders [3] at offset 42: key key: value"),
        ("%T %d", b"1767225600123 2026-01-01T00:00:00.123Z"),
        ("%K,%S", b"3,5"),
        ("%h", b"a=1,b=,a=2"),
        ("%R%s", b"\0\0\0\x05value"),
        ("100%%|%", b"100%|%"),
        ("\\t\\x00\\xff\\\\", b"\t\0\xff\\"),
        ("ü%s", "üvalue".encode()),
        ("", b""),
    ],
)
def test_tokens_as_kcat_has_them(template: str, expected: bytes) -> None:
    assert template_writer(template)(RECORD) == expected


def test_a_missing_key_and_value_have_length_minus_one_and_print_nothing_or_null() -> None:
    assert template_writer("%k|%s|%K|%S|%R|%h")(BARE) == b"||-1|-1|\xff\xff\xff\xff|"
    assert template_writer("%k|%s", missing=b"NULL")(BARE) == b"NULL|NULL"


def test_keys_and_values_may_be_encoded() -> None:
    assert template_writer("%k:%s", encode=ENCODERS["hex"])(RECORD) == b"6b6579:76616c7565"
    assert template_writer("%k:%s", encode=ENCODERS["base64"])(RECORD) == b"a2V5:dmFsdWU="


def test_an_unknown_token_names_those_there_are() -> None:
    with pytest.raises(BadTemplate, match=r"%x is not a token: use %t %p %o"):
        template_writer("%x")


@pytest.mark.parametrize("text", ["\\", "\\q", "\\x1", "\\xzz"])
def test_a_bad_escape_is_refused(text: str) -> None:
    with pytest.raises(BadEscape):
        unescape(text)


def test_json_has_every_field_in_a_fixed_order() -> None:
    assert json_writer(RECORD) == (
        b'{"topic":"orders","partition":3,"offset":42,"timestamp":1767225600123,"timestamp_type":"create",'
        b'"key":"key","value":"value","headers":[{"key":"a","value":"1"},{"key":"b","value":null},{"key":"a","value":"2"}]}\n'
    )


def test_bytes_that_are_not_text_come_as_base64_under_another_name() -> None:
    written = json.loads(json_writer(RECORD._replace(key=b"\xff", headers=(("h", b"\xfe"),))))
    assert written["key_base64"] == "/w=="
    assert "key" not in written
    assert written["headers"] == [{"key": "h", "value_base64": "/g=="}]


content = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@given(content, content, st.lists(st.tuples(st.text(max_size=5), content), max_size=3), st.integers(-1, 2**63 - 1))
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int
) -> None:
    record = RECORD._replace(key=key, value=value, headers=tuple(headers), timestamp_ms=timestamp_ms)
    line = json_writer(record)
    assert line.count(b"\n") == 1
    event = RecordParser(Encoding.JSON).parse(line)
    assert (event.key, event.value, event.headers) == (key, value, tuple(headers))
    assert event.timestamp_ms == (None if timestamp_ms < 0 else timestamp_ms)
