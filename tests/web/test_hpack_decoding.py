"""Our decoder of HPACK against the `hpack` package."""

from __future__ import annotations

import pytest
from hpack import Decoder as OtherDecoder
from hpack import Encoder, HPACKError, NeverIndexedHeaderTuple
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.web.hpack_decoding import BadBlock, Decoder, TooLarge
from headrace.web.http2_frames import NO_TABLE, header_block, status_block

names = st.one_of(st.sampled_from([b":path", b"content-type", b"x-a", b"cookie"]), st.binary(min_size=1, max_size=20))
fields = st.tuples(names, st.binary(max_size=200))
blocks = st.lists(st.tuples(st.lists(fields, max_size=8), st.booleans(), st.none() | st.integers(0, 4096)), max_size=8)


@settings(max_examples=60, deadline=None)
@given(blocks, st.booleans())
def test_what_was_encoded_is_decoded_block_after_block(said: list, never_indexed: bool) -> None:
    encoder, decoder = Encoder(), Decoder(1 << 20)
    for headers, huffman, table_size in said:
        if table_size is not None:
            encoder.header_table_size = table_size
        given_fields = [NeverIndexedHeaderTuple(*field) if never_indexed else field for field in headers]
        assert decoder.decode(encoder.encode(given_fields, huffman=huffman)) == headers
        assert decoder._used <= decoder._room <= 4096


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_of_any_bytes_it_reads_nothing_that_the_other_does_not(said: list[bytes]) -> None:
    ours, other = Decoder(1 << 20), OtherDecoder(1 << 20)
    for block in said:
        try:
            found = ours.decode(block)
        except (BadBlock, TooLarge):
            return
        assert found == [tuple(field) for field in other.decode(block, raw=True)]


@given(st.binary(max_size=300))
def test_huffman_code_of_any_bytes(value: bytes) -> None:
    assert Decoder(1 << 20).decode(Encoder().encode([(b"x", value)], huffman=True)) == [(b"x", value)]


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xbe",  # nothing in the table
        b"\x40\x01a",  # ends before the value
        b"\x40\x05a",
        b"\x00\x01a\x81\x00",  # padding that is not EOS's
        b"\x00\x01a\x81\xff",  # eight bits of padding
        b"\x00\x01a\x84\xff\xff\xff\xff",  # EOS
        b"\xff\xff\xff\xff\xff\xff\xff",  # a number without end
        b"\x3f\xff\xff\x03",  # a table of 65 kB
        b"\x82\x20",  # a size behind a header
    ],
)
def test_is_refused(block: bytes) -> None:
    with pytest.raises(BadBlock):
        Decoder(1 << 20).decode(block)
    with pytest.raises(HPACKError):
        OtherDecoder().decode(block)


def test_headers_that_unpack_to_more_than_the_bound_are_refused() -> None:
    decoder = Decoder(65536)
    assert decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000) == [(b"a", b"x" * 4000)]
    with pytest.raises(TooLarge):
        decoder.decode(b"\xbe" * 20)


@given(st.integers(200, 599), st.lists(st.tuples(st.sampled_from([b"x-a", b"etag", b"content-type"]), st.binary(max_size=300))))
def test_heads_of_answers_are_read_by_the_other(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    headers = [(name, bytes(byte for byte in value if byte not in b"\r\n\0")) for name, value in headers]
    block = NO_TABLE + status_block(status) + header_block(headers)
    found = [tuple(field) for field in OtherDecoder(1 << 20).decode(block, raw=True)]
    assert found == [(b":status", b"%d" % status), *headers]
