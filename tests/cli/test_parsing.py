import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.parsing import BadRecord, Encoding, RecordParser, parse_header
from headrace.record.event import Event


def test_text_is_taken_as_it_is() -> None:
    assert RecordParser().parse(b" a\xff ") == Event(None, b" a\xff ")


def test_the_first_key_delimiter_counts() -> None:
    assert RecordParser(key_delimiter=b":").parse(b"k:v:w") == Event(b"k", b"v:w")
    assert RecordParser(key_delimiter=b"=>").parse(b"k=>v") == Event(b"k", b"v")


def test_a_line_without_its_key_delimiter_is_refused() -> None:
    with pytest.raises(BadRecord, match="no key delimiter ':'"):
        RecordParser(key_delimiter=b":").parse(b"value")


def test_empty_is_null_only_when_asked_for() -> None:
    assert RecordParser(key_delimiter=b":").parse(b":") == Event(b"", b"")
    assert RecordParser(key_delimiter=b":", empty_is_null=True).parse(b":") == Event(None, None)
    assert RecordParser(key_delimiter=b":", empty_is_null=True).parse(b"k:") == Event(b"k", None)


def test_a_fixed_key_and_headers_go_with_every_record() -> None:
    parser = RecordParser(key=b"k", headers=(("h", b"v"),))
    assert parser.parse(b"x") == Event(b"k", b"x", (("h", b"v"),))


@pytest.mark.parametrize(("encoding", "line"), [(Encoding.HEX, b"6B:00ff"), (Encoding.BASE64, b"aw==:AP8=")])
def test_hex_and_base64_decode_key_and_value(encoding: Encoding, line: bytes) -> None:
    assert RecordParser(encoding, key_delimiter=b":").parse(line) == Event(b"k", b"\x00\xff")


@pytest.mark.parametrize(
    ("encoding", "line", "why"),
    [
        (Encoding.HEX, b"0", "not hexadecimal"),
        (Encoding.HEX, b"zz", "not hexadecimal"),
        (Encoding.HEX, b"\xff", "not hexadecimal"),
        (Encoding.BASE64, b"a", "not base64"),
        (Encoding.BASE64, b"a!==", "not base64"),
        (Encoding.JSON, b"", "not JSON"),
        (Encoding.JSON, b"{", "not JSON"),
        (Encoding.JSON, b'{"value": "\xff"}', "not JSON"),
        (Encoding.JSON, b"[" * 100_000, "not JSON"),
        (Encoding.JSON, b"[]", "a JSON object is needed, not an array"),
        (Encoding.JSON, b"null", "not null"),
        (Encoding.JSON, b'{"valeu": 1}', "unknown field 'valeu'"),
        (Encoding.JSON, b'{"value_base64": "a"}', "'value_base64' is not base64"),
        (Encoding.JSON, b'{"value_base64": 1}', "'value_base64' is not a string"),
        (Encoding.JSON, b'{"value": "a", "value_base64": "YQ=="}', "both 'value' and 'value_base64'"),
        (Encoding.JSON, b'{"timestamp": "now"}', "'timestamp' is not a number"),
        (Encoding.JSON, b'{"timestamp": true}', "'timestamp' is not a number"),
        (Encoding.JSON, b'{"timestamp": -5}', "'timestamp' is not a number"),
        (Encoding.JSON, b'{"headers": "a=b"}', "'headers' is neither"),
        (Encoding.JSON, b'{"headers": [{"value": "x"}]}', "a header needs a 'key'"),
        (Encoding.JSON, b'{"value": "\\ud800"}', "half of a surrogate pair"),
        (Encoding.JSON, b'{"headers": {"\\ud800": "x"}}', "not UTF-8"),
    ],
)
def test_bad_input_says_what_is_wrong(encoding: Encoding, line: bytes, why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        RecordParser(encoding).parse(line)


def test_json_fields_are_optional_and_others_than_strings_become_json() -> None:
    parser = RecordParser(Encoding.JSON)
    assert parser.parse(b"{}") == Event()
    assert parser.parse('{"key": 7, "value": {"a": [1, "ü"]}}'.encode()) == Event(b"7", '{"a":[1,"ü"]}'.encode())
    assert parser.parse(b'{"value": false}') == Event(None, b"false")


def test_json_headers_may_be_an_object_or_a_list() -> None:
    parser = RecordParser(Encoding.JSON, headers=(("all", b"x"),))
    expected = (("all", b"x"), ("a", b"1"), ("b", None))
    assert parser.parse(b'{"headers": {"a": "1", "b": null}}').headers == expected
    assert parser.parse(b'{"headers": [{"key": "a", "value": 1}, {"key": "b"}]}').headers == expected


def test_json_that_was_consumed_may_be_produced_elsewhere() -> None:
    line = b'{"topic":"a","partition":9,"offset":5,"timestamp":7,"timestamp_type":"create","key":"k","value":null}'
    assert RecordParser(Encoding.JSON).parse(line) == Event(b"k", None, (), 7)


def test_headers_of_the_command_line() -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a=") == ("a", b"")
    assert parse_header("a") == ("a", None)
    with pytest.raises(BadRecord, match="use name=value"):
        parse_header("=b")


@given(st.sampled_from(list(Encoding)), st.binary(max_size=60))
def test_no_input_breaks_the_parser(encoding: Encoding, data: bytes) -> None:
    try:
        RecordParser(encoding, key_delimiter=None if encoding is Encoding.JSON else b":").parse(data)
    except BadRecord:
        pass
