"""Whole batches made of events and read back as records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import twin
from headrace.record.batch import (
    Record,
    TimestampType,
    batches,
    check_batch,
    decode_batch,
    encode_batch,
    filter_batch,
    read_header,
)
from headrace.record.compression import Compression
from headrace.record.errors import BatchError, BatchTooBig, CorruptBatch, UnknownCompression, UnsupportedMagic
from headrace.record.event import Event

NOW = 1_700_000_000_000

contents = st.none() | st.binary(max_size=40)
events = st.builds(
    Event,
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple),
    st.none() | st.integers(0, 2**45),
)
compressions = st.sampled_from(list(Compression))


def three(**options: object) -> bytearray:
    made = [Event(b"a", b"1", timestamp_ms=NOW), Event(b"b", None, timestamp_ms=NOW - 5), Event(None, b"3")]
    return encode_batch(made, base_offset=10, now_ms=NOW + 9, **options)  # type: ignore[arg-type]


def sealed(batch: bytearray) -> bytearray:
    """With the CRC made right again."""
    batch[17:21] = twin.crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


@given(st.lists(events, min_size=1, max_size=8), st.integers(0, 2**40), compressions)
def test_what_was_encoded_is_decoded(made: list[Event], base_offset: int, compression: Compression) -> None:
    batch = encode_batch(made, base_offset=base_offset, compression=compression, now_ms=NOW)
    twin.check_batch(batch, 0, len(batch))
    expected = [
        Record(base_offset + i, NOW if e.timestamp_ms is None else e.timestamp_ms, e.key, e.value, e.headers)
        for i, e in enumerate(made)
    ]
    assert decode_batch(batch) == expected
    assert decode_batch(b"before" + bytes(batch) + b"after", 6) == expected


def test_a_header_tells_everything() -> None:
    batch = three(
        compression=Compression.GZIP, producer_id=5, producer_epoch=6, base_sequence=7, leader_epoch=8,
        transactional=True, control=True,
    )  # fmt: skip
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count, header.size) == (10, 12, 3, len(batch))
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW, NOW + 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (5, 6, 7, 8)
    assert header.compression == Compression.GZIP
    assert header.transactional
    assert header.control
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.delete_horizon_ms is None


def test_append_time_is_every_records_time() -> None:
    batch = three(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert read_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_batch(batch)] == [NOW + 9] * 3


def test_a_delete_horizon_is_the_base_timestamp() -> None:
    batch = three()
    batch[22] |= 0x40
    assert check_batch(sealed(batch)).delete_horizon_ms == NOW


def test_a_record_becomes_an_event_again() -> None:
    assert decode_batch(three())[0].event == Event(b"a", b"1", (), NOW)


def test_a_batch_needs_events_and_their_times() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])
    for made in ([Event()], [Event(timestamp_ms=1), Event()], [Event(), Event(timestamp_ms=1)]):
        with pytest.raises(ValueError, match="now_ms"):
            encode_batch(made)
    with pytest.raises(ValueError, match="now_ms"):
        encode_batch([Event(timestamp_ms=1)], timestamp_type=TimestampType.LOG_APPEND_TIME)


def test_a_walk_over_a_fetch_leaves_out_the_cut_batch() -> None:
    whole = bytes(three()) + bytes(three(compression=Compression.ZSTD))
    walked = [(header.compression, len(batch)) for header, batch in batches(whole + bytes(three())[:-1])]
    assert walked == [(0, len(three())), (4, len(whole) - len(three()))]


@pytest.mark.parametrize("compression", list(Compression))
def test_filtering_leaves_gaps_and_nothing_else(compression: Compression) -> None:
    batch = three(compression=compression, producer_id=5, producer_epoch=6, base_sequence=7)
    filtered = filter_batch(batch, lambda record: record.key != b"b")
    before, after = check_batch(batch), check_batch(filtered)
    assert decode_batch(filtered) == [record for record in decode_batch(batch) if record.key != b"b"]
    assert (after.last_offset_delta, after.record_count) == (2, 2)
    for same in ("base_offset", "producer_id", "producer_epoch", "base_sequence", "attributes", "base_timestamp_ms"):
        assert getattr(after, same) == getattr(before, same)
    only_old = filter_batch(batch, lambda record: record.key == b"b")
    assert check_batch(only_old).max_timestamp_ms == NOW - 5


def test_a_filter_may_leave_an_empty_batch() -> None:
    empty = filter_batch(three(compression=Compression.NONE), lambda record: False)
    assert len(empty) == 61
    assert (read_header(empty).last_offset, read_header(empty).max_timestamp_ms) == (12, NOW + 9)
    assert decode_batch(empty) == []


@pytest.mark.parametrize("compression", [c for c in Compression if c])
def test_an_emptied_compressed_batch_is_read_too(compression: Compression) -> None:
    empty = filter_batch(three(compression=compression), lambda record: False)
    assert decode_batch(empty) == []


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    for compression in Compression:
        batch = encode_batch([Event(None, bytes(3_000_000))], compression=compression, now_ms=NOW)
        with pytest.raises(BatchTooBig):
            decode_batch(batch, max_size=1_000_000)
        assert len(decode_batch(batch, max_size=3_000_100)) == 1


@pytest.mark.parametrize("code", [5, 6, 7])
def test_unknown_compressions_have_their_own_error(code: int) -> None:
    batch = three()
    batch[22] |= code
    with pytest.raises(UnknownCompression):
        decode_batch(sealed(batch))


def test_a_wrong_crc_is_found_unless_asked_not_to_look() -> None:
    batch = three()
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        decode_batch(batch)
    batch[-1] ^= 1
    batch[17] ^= 1
    assert len(decode_batch(batch, check_crc=False)) == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named(magic: int) -> None:
    batch = three()
    batch[16] = magic
    with pytest.raises(UnsupportedMagic):
        decode_batch(batch)


@given(compressions, st.integers(0, 200), st.integers(0, 255), st.booleans())
def test_a_changed_byte_gives_records_or_an_error_of_ours(compression: Compression, pos: int, value: int, seal: bool) -> None:
    batch = three(compression=compression)
    batch[pos % len(batch)] = value
    if seal:
        sealed(batch)
    try:
        decode_batch(batch, max_size=1_000_000)
    except BatchError:
        pass


@given(st.binary(max_size=300))
def test_random_bytes_give_records_or_an_error_of_ours(data: bytes) -> None:
    try:
        decode_batch(data)
    except BatchError:
        pass
    try:
        list(batches(data))
    except BatchError:
        pass
