"""What expressions see of a record, and what their answers become."""

from __future__ import annotations

import pytest

from headrace.expressions.expressions import Expressions, Fault, InvalidExpression, Result
from headrace.expressions.program import MAX_JSON_BYTES, Program
from headrace.record import Record

RECORD = Record(
    5, 1_700_000_000_123, b"k1", b'{"amount":7,"tags":["a","b"],"deep":{"x":null}}', (("h", b"old"), ("h", b"v"), ("n", None))
)


def apply(record: Record = RECORD, **expressions: str) -> Result:
    return Program(Expressions(**expressions)).apply("orders", 2, record)


def value(expression: str, record: Record = RECORD) -> object:
    result = apply(record, value=expression)
    return result.reason if isinstance(result, Fault) else result.value if isinstance(result, Record) else result


def with_value(content: bytes | None) -> Record:
    return RECORD._replace(value=content)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("topic", b"orders"),
        ("partition", b"2"),
        ("offset", b"5"),
        ("timestamp", b'"2023-11-14T22:13:20.123000Z"'),
        ("timestamp.getFullYear()", b"2023"),
        ("timestamp < timestamp('2024-01-01T00:00:00Z')", b"true"),
        ("key", b"k1"),
        ("key.startsWith('k')", b"true"),
        ("value.amount", b"7"),
        ("value.tags[1]", b"b"),
        ("value.tags.exists(tag, tag == 'b')", b"true"),
        ("has(value.missing)", b"false"),
        ("value.deep", b'{"x":null}'),
        ("value.deep.x", None),
        ("headers.h", b"v"),
        ("headers['n']", None),
        ("'q' in headers", b"false"),
        ("text", RECORD.value),
        ("raw", RECORD.value),
        ("size(raw)", b"47"),
        ("{'b': 1, 'a': [value.amount, 2.5, true, null]}", b'{"a":[7,2.5,true,null],"b":1}'),
        ("'%s-%d'.format([key, value.amount])", b"k1-7"),
        ("key.upperAscii() + ' a,b'.split(',')[1]", b"K1b"),
        ("math.greatest(value.amount, 9)", b"9"),
        ("base64.encode(raw).size()", b"64"),
        ("cel.bind(twice, value.amount * 2, twice + twice)", b"28"),
        ("b'\\xff' + b'\\x00'", b"\xff\x00"),
        ("duration('90s')", b'"PT90S"'),
    ],
)
def test_an_expression_says_what_the_value_becomes(expression: str, wanted: bytes | None) -> None:
    assert value(expression) == wanted


@pytest.mark.parametrize(
    ("content", "expression", "wanted"),
    [
        (b"42", "value + 1", b"43"),
        (b"4.5", "value * 2.0", b"9.0"),
        (b'"text"', "value", b"text"),
        (b"plain", "value", b"plain"),
        (b"", "value", b""),
        (b"null", "value == null", b"true"),
        (None, "value == null", b"true"),
        (None, "text", b""),
        (None, "size(raw)", b"0"),
        (b"\xff\xfe", "value", b"\xff\xfe"),
        (b"\xff\xfe", "type(value) == bytes", b"true"),
        (b"\xffa", "text", "�a".encode()),
        (b"[1,2", "value", b"[1,2"),
        (b"NaN", "value", b"NaN"),
        (b"99999999999999999999", "value > 1.0", b"true"),
        (b"-99999999999999999999", "value < 0.0", b"true"),
        (b"9223372036854775807", "value", b"9223372036854775807"),
        (b"9223372036854775808", "value == 9223372036854775808.0", b"true"),
        (b"-9223372036854775808", "value", b"-9223372036854775808"),
        (b'{"a":1,"a":2}', "value.a", b"2"),
        (b"1" * 5000, "value > 1.0", b"true"),
    ],
)
def test_a_value_is_json_or_text_or_bytes(content: bytes | None, expression: str, wanted: bytes) -> None:
    assert value(expression, with_value(content)) == wanted


def test_keys_and_headers_that_are_no_text_are_bytes() -> None:
    record = RECORD._replace(key=b"\xff", headers=(("x", b"\xfe"), ("\udcff", b"1")))
    assert value("key", record) == b"\xff"
    assert value("headers.x", record) == b"\xfe"
    assert value("size(headers)", record) == b"2"
    assert value("key == null", RECORD._replace(key=None)) == b"true"


@pytest.mark.parametrize(
    ("expressions", "reason"),
    [
        ({"filter": "value.missing > 5"}, 'filter: Key not found in map : "missing"'),
        ({"filter": "value.amount"}, "filter must say true or false, and said '7'"),
        ({"filter": "value"}, "filter must say true or false"),
        ({"value": "1 / 0"}, "transform.value: divide by zero"),
        ({"value": "value.tags[9]"}, "transform.value: "),
        ({"value": "int(key)"}, "transform.value: cannot convert string to int"),
        ({"value": "key.matches('(')"}, "transform.value: invalid regular expression"),
        ({"key": "9223372036854775807 + value.amount"}, "transform.key: integer overflow"),
        ({"headers": "value.amount"}, "transform.headers must say a map"),
        ({"headers": "{1: 'a'}"}, "transform.headers: the name of a header is a text, and not 1"),
        ({"value": "type(value)"}, "transform.value has no form in JSON"),
        ({"value": "{true: 1}"}, "transform.value has no form in JSON"),
        ({"filter": "value.tags.all(a, " * 5 + "true" + ")" * 5 + " && key.size() / 0 > 1"}, "filter: divide by zero"),
    ],
)
def test_what_goes_wrong_is_a_fault_with_a_reason(expressions: dict[str, str], reason: str) -> None:
    result = apply(**expressions)
    assert isinstance(result, Fault)
    assert result.reason.startswith(reason)


def test_a_value_that_is_too_long_or_too_deep_is_a_fault_only_where_it_is_looked_into() -> None:
    long = with_value(b'"' + b"x" * MAX_JSON_BYTES + b'"')
    deep = with_value(b"[" * 65 + b"]" * 65)
    assert "bytes" in str(value("value", long))
    assert value("text.size()", long) == b"%d" % (MAX_JSON_BYTES + 2)
    assert value("value == null", deep) == "the value is nested more than 64 deep"
    assert value("value == null", with_value(b"[" * 100_000 + b"]" * 100_000)) == "the value is nested more than 64 deep"
    assert value("value == null", with_value(b"[" * 64 + b"]" * 64)) == b"false"
    assert value("size(value)", with_value(b"[" + b"[]," * 999 + b"[]]")) == b"1000"


@pytest.mark.parametrize("nesting", [2, 3])
def test_iterations_have_a_bound_for_all_loops_together(nesting: int) -> None:
    record = with_value(b"[" + b",".join(b"%d" % number for number in range(500)) + b"]")
    loops = "".join(f"value.all(x{level}, " for level in range(nesting)) + "true" + ")" * nesting
    result = apply(record, filter=loops)
    assert isinstance(result, Fault)
    assert result.reason == "filter: Iteration budget exceeded"


def test_a_regular_expression_takes_no_exponential_time() -> None:
    record = with_value(b"a" * 50_000)
    assert value("text.matches('^(a+)+$b')", record) == b"false"
    assert isinstance(apply(record, value="text.matches('((a{1,50}){1,50}){1,50}')"), Fault)  # a program that is too large


@pytest.mark.parametrize(
    "text", ["1 +", "nothing.there", "f(1)", "value.?x", "'", "(" * 200 + "1" + ")" * 200, "1" + "+1" * 200]
)
def test_what_can_not_be_compiled_is_refused(text: str) -> None:
    with pytest.raises(InvalidExpression, match=r"^transform\.value: "):
        Program(Expressions(value=text))


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "open('/etc/passwd')", "().__class__", "lambda: 1"])
def test_python_is_no_language_here(text: str) -> None:
    with pytest.raises(InvalidExpression):
        Program(Expressions(filter=text))


def test_only_variables_that_are_named_are_made() -> None:
    assert Expressions(filter="value.a > offset", headers="{'k': key}").uses == {"value", "offset", "key"}
