"""What `stream get --json` prints of any record, `stream put -f json` reads back as the same."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.stream_putting import BadRecord, Form, Template
from headrace.cli.stream_reading import record_object
from headrace.client.kinesis.api import Entry
from headrace.client.kinesis.values import Record

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(key=texts, data=st.binary(max_size=40) | texts.map(str.encode), arrived=st.none() | st.integers(0, 2**44))
def test_a_record_comes_back_from_its_line(key: str, data: bytes, arrived: int | None) -> None:
    line = json.dumps(record_object(Record("shardId-000000000000", "1", key, data, arrived)))
    assert Template(Form.JSON, None, None, None).entry(line.encode()) == Entry(data, key)


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_line_is_a_record_or_is_refused_with_words(line: bytes) -> None:
    for form in Form:
        with suppress(BadRecord):
            Template(form, "key", None, None).entry(line)


def test_what_the_line_says_wins_over_the_command_line() -> None:
    template = Template(Form.JSON, "key", None, "1")
    assert template.entry(b'{"data": "x"}') == Entry(b"x", "key", "1")
    assert template.entry(b'{"data": "x", "partition_key": "own", "explicit_hash_key": 7}') == Entry(b"x", "own", "7")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nonsense", "not JSON"),
        (b"[1]", "a JSON object is needed"),
        (b'{"dta": "x"}', "unknown field 'dta'"),
        (b'{"data_base64": "?"}', "'data_base64' is not base64"),
        (b'{"data": "\\ud800"}', "half of a surrogate pair"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_line_is_refused_with_the_reason(line: bytes, why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        Template(Form.JSON, None, None, None).entry(line)
