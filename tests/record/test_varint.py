"""Variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_signed_ones_are_zigzag(value: int, encoded: str) -> None:
    for write, read in ((varint.write_varint, varint.read_varint), (varint.write_varlong, varint.read_varlong)):
        out = bytearray()
        write(out, value)
        assert out.hex() == encoded
        assert read(out, 0) == (value, len(out))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_longs_are_read_back_from_anywhere(value: int, before: bytes) -> None:
    out = bytearray(before)
    varint.write_varlong(out, value)
    assert len(out) - len(before) <= 10
    assert varint.read_varlong(bytes(out) + b"\xff", len(before)) == (value, len(out))


@given(st.integers(0, 2**32 - 1))
def test_unsigned_ones_are_read_back(value: int) -> None:
    out = bytearray()
    varint.write_unsigned_varint(out, value)
    assert len(out) <= 5
    assert varint.read_unsigned_varint(memoryview(out), 0) == (value, len(out))


def test_too_long_and_cut_ones_are_refused() -> None:
    for read, longest in ((varint.read_unsigned_varint, 5), (varint.read_varint, 5), (varint.read_varlong, 10)):
        with pytest.raises(ValueError, match="longer"):
            read(b"\x80" * longest + b"\0", 0)
        with pytest.raises(IndexError):
            read(b"\x80" * (longest - 1), 0)
        with pytest.raises(IndexError):
            read(b"", 0)


def test_values_that_do_not_fit_are_refused() -> None:
    for write, value in (
        (varint.write_unsigned_varint, 2**32),
        (varint.write_unsigned_varint, -1),
        (varint.write_varint, 2**31),
        (varint.write_varint, -(2**31) - 1),
        (varint.write_varlong, 2**63),
    ):
        with pytest.raises(OverflowError):
            write(bytearray(), value)
