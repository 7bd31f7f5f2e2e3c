"""The CBOR codec against another one, and against bytes that want to hurt."""

from __future__ import annotations

import math
import struct

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.kinesis.codec import cbor
from headrace.kinesis.codec.cbor import MAX_DEPTH, MAX_ITEMS, NotCbor, decode, encode
from headrace.kinesis.codec.encoding import Moment

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(PLAIN)
def test_what_another_codec_writes_is_read(value):
    assert decode(cbor2.dumps(value)) == value


@given(PLAIN)
def test_what_is_written_another_codec_reads(value):
    assert cbor2.loads(encode(value, timestamps_in_ms=True)) == value


@given(PLAIN)
def test_indefinite_lengths_are_read(value):
    def write(item):
        if isinstance(item, dict):
            return b"\xbf" + b"".join(write(name) + write(inner) for name, inner in item.items()) + b"\xff"
        if isinstance(item, list):
            return b"\x9f" + b"".join(map(write, item)) + b"\xff"
        if isinstance(item, str):
            half = len(item) // 2
            return b"\x7f" + cbor2.dumps(item[:half]) + cbor2.dumps(item[half:]) + b"\xff"
        if isinstance(item, bytes):
            return b"\x5f" + cbor2.dumps(item[:7]) + cbor2.dumps(item[7:]) + b"\xff"
        return cbor2.dumps(item)

    assert decode(write(value)) == value


@given(st.binary(max_size=200))
@example(b"\x9b" + b"\xff" * 8)
@example(b"\x5b\x7f" + b"\xff" * 7)
@example(b"\xbb" + b"\xff" * 8)
@example(b"\xff")
@example(b"\x81\xff")
@example(b"\xc1\xff")
@example(b"\x7f\x41a\xff")
@example(b"\x1c")
@example(b"\x1f")
@example(b"\xdf")
@example(b"\xf8\x20")
def test_any_bytes_are_a_value_or_refused(data):
    try:
        decode(data)
    except NotCbor:
        pass


def test_depth_and_number_of_values_are_bounded():
    assert decode(b"\x81" * MAX_DEPTH + b"\x01")
    for data in (b"\x81" * (MAX_DEPTH + 1) + b"\x01", b"\x9f" * 100_000, b"\xc6" * 100_000 + b"\x01"):
        with pytest.raises(NotCbor):
            decode(data)
    assert len(decode(cbor.head(4, MAX_ITEMS - 1) + b"\x01" * (MAX_ITEMS - 1))) == MAX_ITEMS - 1
    with pytest.raises(NotCbor):
        decode(cbor.head(4, MAX_ITEMS) + b"\x01" * MAX_ITEMS)


@pytest.mark.parametrize("data", [b"\xa1\x01\x02", b"\xbf\x01\x02\xff", b"\xa1\x41a\x02", b"\x61\xff", b"\x01\x02", b""])
def test_keys_are_texts_and_texts_are_utf_8_and_there_is_one_value(data):
    with pytest.raises(NotCbor):
        decode(data)


def test_tag_1_is_a_moment_in_milliseconds_or_seconds():
    ms = 1_794_835_962_123
    assert decode(b"\xc1" + cbor2.dumps(ms)) == Moment(ms)
    assert decode(b"\xc1" + cbor2.dumps(ms // 1000)) == Moment(ms // 1000 * 1000)
    assert decode(b"\xc1\xfb" + struct.pack(">d", ms / 1000)) == Moment(ms)
    assert encode(Moment(ms), timestamps_in_ms=True) == b"\xc1" + cbor2.dumps(ms)
    assert encode(Moment(ms), timestamps_in_ms=False) == b"\xc1\xfb" + struct.pack(">d", ms / 1000)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 2**60, "text", True, None, [], {}])
def test_a_moment_that_is_none_is_refused(value):
    with pytest.raises(NotCbor):
        decode(b"\xc1" + cbor2.dumps(value))


def test_other_tags_are_read_as_what_they_tag():
    assert decode(cbor2.dumps(cbor2.CBORTag(55799, {"a": 1}))) == {"a": 1}
    assert decode(b"\xc2\x42\x01\x00") == b"\x01\x00"
