"""The four compressions, in the framing that other clients read and write."""

from __future__ import annotations

import gzip
import os

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record.compression import Compression, compress, decompress
from headrace.record.errors import BatchError, BatchTooBig, CorruptBatch, UnknownCompression

REAL = [c for c in Compression if c]
MIXED = b"compressible " * 20_000 + os.urandom(150_000)


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("payload", [b"", b"x", bytes(64 * 1024), bytes(64 * 1024 + 1), MIXED], ids=len)
def test_what_was_compressed_is_decompressed(compression: Compression, payload: bytes) -> None:
    packed = compress(compression, payload)
    for form in (packed, bytearray(packed), memoryview(packed)):
        assert bytes(decompress(compression, form)) == payload


@given(st.sampled_from(REAL), st.binary(max_size=2_000))
def test_any_payload_survives(compression: Compression, payload: bytes) -> None:
    assert bytes(decompress(compression, compress(compression, payload))) == payload


@pytest.mark.parametrize("compression", list(Compression))
def test_the_limit_is_exact(compression: Compression) -> None:
    packed = compress(compression, MIXED)
    assert bytes(decompress(compression, packed, len(MIXED))) == MIXED
    for limit in (len(MIXED) - 1, 70_000, 1, 0):
        with pytest.raises(BatchTooBig):
            decompress(compression, packed, limit)


@pytest.mark.parametrize("compression", REAL)
def test_a_cut_stream_is_corrupt(compression: Compression) -> None:
    packed = compress(compression, MIXED)
    for cut in (0, 1, 5, 10, 17, 18, 30, len(packed) // 2, len(packed) - 1):
        if compression is Compression.SNAPPY and cut == 0:
            continue
        with pytest.raises(BatchError):
            decompress(compression, packed[:cut])


@pytest.mark.parametrize("compression", REAL)
@given(noise=st.binary(max_size=100))
def test_noise_gives_bytes_or_an_error_of_ours(compression: Compression, noise: bytes) -> None:
    for data in (noise, compress(compression, b"payload " * 10)[:16] + noise):
        try:
            decompress(compression, data, 1_000_000)
        except BatchError:
            pass


@pytest.mark.parametrize("code", [5, 7, -1])
def test_unknown_codes_have_their_own_error(code: int) -> None:
    with pytest.raises(UnknownCompression):
        decompress(code, b"x")


def test_gzip_is_what_gzip_reads_and_writes() -> None:
    assert gzip.decompress(compress(Compression.GZIP, MIXED)) == MIXED
    two_members = gzip.compress(b"one ") + gzip.compress(b"two")
    assert bytes(decompress(Compression.GZIP, two_members)) == b"one two"
    fast, small = (compress(Compression.GZIP, MIXED, level) for level in (1, 9))
    assert len(small) < len(fast)


def test_snappy_is_written_in_javas_stream_and_read_raw_too() -> None:
    packed = compress(Compression.SNAPPY, MIXED)
    assert packed.startswith(b"\x82SNAPPY\0" + b"\0\0\0\1" * 2)
    raw = bytes(cramjam.snappy.compress_raw(MIXED))
    assert bytes(decompress(Compression.SNAPPY, raw)) == MIXED
    little_endian = b"\x82SNAPPY\0" + b"\1\0\0\0" * 2 + packed[16:]
    assert bytes(decompress(Compression.SNAPPY, little_endian)) == MIXED


def test_a_snappy_length_that_lies_costs_no_memory() -> None:
    for claim in (b"\xff\xff\xff\x3f", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01"):
        with pytest.raises(BatchError):
            decompress(Compression.SNAPPY, claim + b"abc")
        with pytest.raises(BatchError):
            decompress(Compression.SNAPPY, b"\x82SNAPPY\0" + bytes(8) + bytes([0, 0, 0, len(claim)]) + claim)


def test_lz4_has_independent_blocks_since_java_reads_no_others() -> None:
    packed = compress(Compression.LZ4, MIXED)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20
    assert bytes(cramjam.lz4.decompress(packed)) == MIXED
    linked = bytes(cramjam.lz4.compress(MIXED))
    assert not linked[4] & 0x20
    assert bytes(decompress(Compression.LZ4, linked)) == MIXED


def test_zstd_frames_may_follow_each_other() -> None:
    frames = bytes(cramjam.zstd.compress(b"one ")) + bytes(cramjam.zstd.compress(b"two"))
    assert bytes(decompress(Compression.ZSTD, frames)) == b"one two"
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, frames + b"junk")
