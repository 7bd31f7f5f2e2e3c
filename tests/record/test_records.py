"""The records inside a batch, in both implementations."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record.errors import CorruptBatch

contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)
records = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1), contents, contents, headers), max_size=6
)


@given(records)
def test_what_was_encoded_is_decoded(twin: ModuleType, written: list[tuple[object, ...]]) -> None:
    payload = twin.encode_records(written)
    for form in (payload, bytearray(payload), memoryview(payload)):
        assert twin.decode_records(form, len(written)) == written


@given(records)
def test_both_encode_the_same_bytes(twins: tuple[ModuleType, ModuleType], written: list[tuple[object, ...]]) -> None:
    pure, compiled = twins
    assert pure.encode_records(written) == compiled.encode_records(iter(written))


def test_records_have_kafkas_bytes(twin: ModuleType) -> None:
    payload = twin.encode_records([(0, 0, b"k", b"v", ()), (1, 64, None, b"", (("h", None), ("i", b"x")))])
    first = "10" + "00" + "00" + "00" + "026b" + "0276" + "00"
    second = "1c" + "00" + "8001" + "02" + "01" + "00" + "04" + "0268" + "01" + "0269" + "0278"
    assert payload.hex() == first + second


def test_large_records_are_taken(twin: ModuleType) -> None:
    written = [(i, i, b"k" * 3_000, b"v" * 100_000, (("h" * 200, b"x" * 9_000),)) for i in range(3)]
    assert twin.decode_records(twin.encode_records(written), 3) == written


def test_any_bytes_like_content_is_taken(twin: ModuleType) -> None:
    written = [(0, 0, bytearray(b"k"), memoryview(b"value"), (("h", bytearray(b"x")),))]
    assert twin.decode_records(twin.encode_records(written), 1) == [(0, 0, b"k", b"value", (("h", b"x"),))]


def test_deltas_are_added_to_the_bases_and_wrap_as_in_java(twin: ModuleType) -> None:
    payload = twin.encode_records([(5, -7, None, None, ()), (6, 10, None, None, ())])
    assert [r[:2] for r in twin.decode_records(payload, 2, 100, 1_000)] == [(105, 993), (106, 1_010)]
    last = 2**63 - 1
    assert [r[:2] for r in twin.decode_records(payload, 2, last, last)] == [
        (-(2**63) + 4, last - 7),
        (-(2**63) + 5, -(2**63) + 9),
    ]


def test_header_names_that_are_not_utf8_survive(twin: ModuleType) -> None:
    payload = bytes.fromhex("1400000001010204") + b"\xff\xfe" + b"\x01"
    payload = bytes([2 * (len(payload) - 1)]) + payload[1:]
    decoded = twin.decode_records(payload, 1)
    assert decoded[0][4] == (("\udcff\udcfe", None),)
    assert twin.encode_records(decoded) == payload


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_lies_is_corrupt(twin: ModuleType, count: int) -> None:
    payload = twin.encode_records([(0, 0, b"k", b"v", ()), (1, 0, b"k", b"v", ())])
    with pytest.raises(CorruptBatch):
        twin.decode_records(payload, count)


def test_no_records_are_no_records(twin: ModuleType) -> None:
    assert twin.encode_records([]) == b""
    assert twin.decode_records(b"", 0) == []


@pytest.mark.parametrize(
    "payload",
    [
        "0e" + "00" * 6,  # the length says seven, six are left
        "0c" + "00" * 5 + "80",  # a varint that is cut
        "1200" + "00" + "00" + "ffffffffff" + "00",  # a varint of more than five bytes
        "2a00" + "ff" * 11 + "00" * 9,  # a varlong of more than ten
        "0c00" + "0000" + "02" + "0000",  # the key reaches into the next field, nothing is left for the last
        "0c00" + "0000" + "feffffff0f" + "00",  # a key of 2 GiB
        "0c00" + "000101" + "01",  # minus one headers
        "0c00" + "000101" + "0e",  # seven headers in no bytes
        "1000" + "000101" + "02" + "01" + "01",  # a header without a name
        "0d" + "00" * 6,  # a negative length
        "0e00" + "0000" + "01010000",  # a record shorter than its length
    ],
)
def test_malformed_records_are_corrupt(twin: ModuleType, payload: str) -> None:
    with pytest.raises(CorruptBatch):
        twin.decode_records(bytes.fromhex(payload), 1)


@pytest.mark.parametrize(
    "record",
    [
        (0, 2**63, None, None, ()),
        (2**31, 0, None, None, ()),
    ],
)
def test_deltas_that_do_not_fit_are_refused(twin: ModuleType, record: tuple[object, ...]) -> None:
    with pytest.raises(OverflowError):
        twin.encode_records([record])


@pytest.mark.parametrize(
    "record",
    [(0, 0, "text", None, ()), (0, 0, None, 5, ()), (0, 0, None, None, (("h", "text"),))],
)
def test_content_must_be_bytes(twin: ModuleType, record: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        twin.encode_records([record])
