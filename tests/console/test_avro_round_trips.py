"""Avro as text: what was encoded is what is shown, and bytes that nobody meant are text or one problem."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.console.avro_encoding import encoded

from headrace.console.formats.avro import CUT, as_json
from headrace.console.formats.avro_schema import read_schema
from headrace.console.formats.errors import Undecodable


@settings(max_examples=150, deadline=None)
@given(encoded(), st.binary(max_size=10), st.booleans())
def test_what_was_encoded_is_what_is_shown(case: tuple[Any, bytes, Any], before: bytes, indent: bool) -> None:
    schema, data, value = case
    text = as_json(read_schema(json.dumps(schema)), before + data, len(before), 10_000_000, indent=indent)
    assert json.loads(text) == value
    assert len(text) >= 1


@settings(max_examples=150, deadline=None)
@given(encoded(), st.data())
def test_bytes_that_nobody_meant_are_text_or_one_problem(case: tuple[Any, bytes, Any], data: st.DataObject) -> None:
    """Bytes turned, cut and added: never another exception, never more text than asked for."""
    schema, good, _ = case
    cut = data.draw(st.integers(0, len(good)))
    bad = good[:cut] + data.draw(st.binary(max_size=20)) + good[cut + data.draw(st.integers(0, 3)) :]
    problem = ""
    text = ""
    try:
        text = as_json(read_schema(json.dumps(schema)), bad, 0, 500, indent=True)
    except Undecodable as raised:
        problem = str(raised)
    assert bool(text) != bool(problem)
    assert len(problem.splitlines()) <= 1
    assert len(problem) < 400
    assert len(text) <= 500 + len(CUT)
    text.encode()


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_32_bits_is_shown_with_digits_that_are_it(number: float) -> None:
    text = as_json(read_schema('"float"'), struct.pack("<f", number), 0, 100, indent=False)
    assert struct.pack("<f", float(text)) == struct.pack("<f", number)
    assert math.copysign(1, float(text)) == math.copysign(1, number)
