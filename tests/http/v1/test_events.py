"""The JSON form of an event: both ways without loss, and a clear word for what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.http.v1.events import (
    MAX_DEPTH,
    MAX_DIGITS,
    BadEvent,
    Form,
    Incoming,
    decode_event,
    decode_events,
    encode,
    encode_lines,
    shown,
)
from headrace.record.batch import Record

names = st.binary(max_size=10).map(lambda name: name.decode("utf-8", "surrogateescape"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
values = (
    st.none()
    | st.binary(max_size=30)
    | st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace"))
    | st.builds(lambda value, indent: json.dumps(value, indent=indent).encode(), json_values, st.sampled_from([None, 1]))
)
records = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.none() | st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    values,
    st.lists(st.tuples(names, st.none() | st.binary(max_size=10)), max_size=4).map(tuple),
)


def member(value: bytes | None, form: Form = Form.AUTO) -> dict[str, object]:
    """How a value is shown."""
    text = encode(shown(Record(0, 0, None, value), 0, form))
    return {name: found for name, found in json.loads(text).items() if name.startswith("value")}


@given(records, st.integers(0, 2**31 - 1), st.sampled_from(Form))
@example(Record(0, 0, b"", b"", ()), 0, Form.AUTO)
@example(Record(0, 0, None, b'"hello"', (("a", None), ("a", b""), ("\udcff", b"\xff"))), 0, Form.AUTO)
@example(Record(0, 0, b"\xff", b" 1", ()), 0, Form.AUTO)
def test_an_event_that_is_shown_and_sent_again_is_the_same_byte_for_byte(record: Record, partition: int, form: Form) -> None:
    text = encode(shown(record, partition, form))
    assert b"\n" not in text
    assert b"\r" not in text
    json.loads(text)  # others can read it
    sent = decode_event(text)
    assert sent == Incoming(record.key, record.value, record.headers, record.timestamp_ms, partition)


@given(st.lists(records, max_size=5))
def test_lines_are_one_event_each(found: list[Record]) -> None:
    lines = encode_lines([shown(record, 3) for record in found]).splitlines()
    assert [decode_event(line).event for line in lines] == [record.event for record in found]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"hello", {"value": "hello"}),
        (b"", {"value": ""}),
        (None, {"value": None}),
        (b"null", {"value": "null"}),
        (b'"hello"', {"value": '"hello"'}),
        (b'{"a": 1}', {"value": {"a": 1}}),
        (b"[1,2]", {"value": [1, 2]}),
        (b"-12.5", {"value": -12.5}),
        (b"true", {"value": True}),
        (b" true", {"value": " true"}),
        (b'{"a":\n1}', {"value": '{"a":\n1}'}),
        (b'{"a": 1', {"value": '{"a": 1'}),
        (b"01", {"value": "01"}),
        (b"NaN", {"value": "NaN"}),
        ("é\u2028".encode(), {"value": "é\u2028"}),
        (b"\xff\x00", {"value_base64": "/wA="}),
        (b'{"a": "\xff"}', {"value_base64": "eyJhIjogIv8ifQ=="}),
        (b"\xed\xa0\x80", {"value_base64": "7aCA"}),
        (b'{"a":"\\ud800"}', {"value": '{"a":"\\ud800"}'}),
    ],
)
def test_a_value_is_shown_by_what_it_is(value: bytes | None, expected: dict[str, object]) -> None:
    assert member(value) == expected


def test_what_could_hurt_a_reader_is_a_string() -> None:
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert isinstance(member(deep)["value"], list)
    assert member(b"[" + deep + b"]") == {"value": f"[{deep.decode()}]"}
    assert isinstance(member(b'{"text": "' + b"[" * 500 + b'"}')["value"], dict)  # brackets in a string nest nothing
    assert isinstance(member(b"[" + b"[]," * 500 + b"[]]")["value"], list)
    assert isinstance(member(b"1" * MAX_DIGITS)["value"], int)
    assert member(b"1" * 5000) == {"value": "1" * 5000}  # more than Python takes


def test_other_forms_are_as_asked_for() -> None:
    assert member(b'{"a": 1}', Form.TEXT) == {"value": '{"a": 1}'}
    assert member(b"\xff", Form.TEXT) == {"value_base64": "/w=="}
    assert member(b"hi", Form.BASE64) == {"value_base64": "aGk="}
    assert member(None, Form.BASE64) == {"value": None}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ('{"value": "hello"}', Incoming(None, b"hello")),
        ('{"value": {"a" :  1.10}}', Incoming(None, b'{"a" :  1.10}')),
        ('{"value": {\n  "a": 1,\n  "b": "x  y"\n}}', Incoming(None, b'{"a":1,"b":"x  y"}')),
        ('{"value": "a\\u00e9\\n"}', Incoming(None, "aé\n".encode())),
        ('{"value": 5, "key": 7}', Incoming(b"7", b"5")),
        ('{"value": null, "key": ""}', Incoming(b"", None)),
        ('{"value": false, "key": null}', Incoming(None, b"false")),
        ('{"value_base64": "_-8", "key_base64": "+/8="}', Incoming(b"\xfb\xff", b"\xff\xef")),
        ('{"value": 1, "headers": {"a": "b", "n": null, "i": 3, "t": true}}',
         Incoming(None, b"1", (("a", b"b"), ("n", None), ("i", b"3"), ("t", b"true")))),
        ('{"value": 1, "headers": [["a", "1"], ["a", {"base64": "/w=="}]]}',
         Incoming(None, b"1", (("a", b"1"), ("a", b"\xff")))),
        ('{"value": 1, "timestamp": 12, "partition": 3, "offset": 99}', Incoming(None, b"1", (), 12, 3)),
        ('{"value": 1, "timestamp": "1970-01-01T00:00:01.5+00:00"}', Incoming(None, b"1", (), 1500)),
    ],
)  # fmt: skip
def test_what_is_sent_becomes_these_bytes(sent: str, expected: Incoming) -> None:
    assert decode_event(sent.encode()) == expected


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (b"", "not_json", "nothing"),
        (b"{", "not_json", "too early"),
        (b"nonsense", "not_json", "malformed"),
        (b'{"value": 01}', "not_json", "byte 11"),
        (b'{"value": 1} {}', "not_json", "byte 14"),
        (b'{"value": "\xff"}', "not_json", "not UTF-8 at byte 11"),
        (b'{"value": {"a": "\xff"}}', "not_json", "not UTF-8 at byte 17"),
        (b'{"value": "\\ud800"}', "not_json", "surrogate"),
        (b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not_json", "nested"),
        (b"[" * 100_000, "not_json", "nested"),
        (b"5", "invalid_event", "Expected `object`"),
        (b"{}", "invalid_event", "value_base64"),
        (b'{"vaule": 1}', "invalid_event", "there is no member `vaule`"),
        (b'{"value": 1, "value_base64": ""}', "invalid_event", "not both"),
        (b'{"value": 1, "key": "", "key_base64": ""}', "invalid_event", "not both"),
        (b'{"value": 1, "key": 1.5}', "invalid_event", "$.key"),
        (b'{"value": 1, "key": {}}', "invalid_event", "$.key"),
        (b'{"value": 1, "key": ' + b"9" * 5000 + b"}", "invalid_event", "$.key"),
        (b'{"value_base64": "?"}', "invalid_event", "not base64"),
        (b'{"value": 1, "headers": {"a": []}}', "invalid_event", "$.headers"),
        (b'{"value": 1, "headers": [["a"]]}', "invalid_event", "$.headers"),
        (b'{"value": 1, "timestamp": -2}', "invalid_event", "milliseconds"),
        (b'{"value": 1, "timestamp": 1e300}', "invalid_event", "timestamp"),
        (b'{"value": 1, "timestamp": "2026-01-01T00:00:00"}', "invalid_event", "2026-01-01T00:00:00"),
        (b'{"value": 1, "partition": "0"}', "invalid_event", "$.partition"),
        (b'{"value": 1, "events": []}', "invalid_event", "not both"),
        (b'[{"value": 1}, {"key": 1}]', "invalid_event", "event 1 (counted from 0)"),
        (b'{"events": [{"value": 1}, 7]}', "invalid_event", "event 1 (counted from 0)"),
    ],
)  # fmt: skip
def test_what_is_no_event_is_told(sent: bytes, code: str, text: str) -> None:
    with pytest.raises(BadEvent) as caught:
        decode_events(sent)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_a_body_holds_one_event_or_many() -> None:
    one = Incoming(None, b"1")
    assert decode_events(b'{"value": 1}') == ([one], False)
    assert decode_events(b' [{"value": 1}, {"value": 1}]') == ([one, one], True)
    assert decode_events(b'{"events": [{"value": 1}]}') == ([one], True)
    assert decode_events(b"[]") == ([], True)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_nothing_but_bad_event_comes_of_any_bytes(sent: bytes) -> None:
    try:
        decode_events(sent)
    except BadEvent:
        pass
