"""Checks, stamps and walks over whole batches, in both implementations."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.record import errors
from headrace.record.batch import TimestampType, check_batch, decode_batch, encode_batch, last_header, read_header
from headrace.record.event import Event

NOW = 1_700_000_000_000


def batch(count: int = 1, base_offset: int = 0, **options: object) -> bytearray:
    events = [Event(b"k%d" % i, b"v" * i, timestamp_ms=NOW + i) for i in range(count)]
    return encode_batch(events, base_offset=base_offset, **options)  # type: ignore[arg-type]


def log(*counts: int, start: int = 0) -> bytearray:
    whole = bytearray()
    for count in counts:
        whole += batch(count, start)
        start += count
    return whole


# The vectors of RFC 3720, B.4, and the usual check value.
@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (b"\x00" * 32, 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_crc32c_gives_the_published_values(twin: ModuleType, data: bytes, crc: int) -> None:
    assert twin.crc32c(data) == crc
    assert twin.crc32c(memoryview(bytearray(data))) == crc


@given(st.binary(max_size=200), st.integers(0, 200))
def test_crc32c_goes_on_from_a_value(twin: ModuleType, data: bytes, cut: int) -> None:
    assert twin.crc32c(data[cut:], twin.crc32c(data[:cut])) == twin.crc32c(data)


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_crc32c_by_tables_equals_the_processors(twins: tuple[ModuleType, ModuleType], data: bytes, value: int) -> None:
    pure, compiled = twins
    assert compiled.crc32c_tables(data, value) == compiled.crc32c(data, value) == pure.crc32c(data, value)


@pytest.mark.parametrize("size", [3_071, 3_072, 3_073, 6_144, 10_000, 65_537, 1_000_003])
def test_crc32c_of_much_data_is_the_same_by_all_ways(twins: tuple[ModuleType, ModuleType], size: int) -> None:
    pure, compiled = twins
    data = random.Random(size).randbytes(size)
    assert compiled.crc32c_tables(data, 5) == compiled.crc32c(data, 5) == pure.crc32c(data, 5)


def test_a_good_batch_tells_what_its_header_says(twin: ModuleType) -> None:
    data = batch(3, producer_id=7, producer_epoch=2, base_sequence=11, transactional=True)
    framed = b"xx" + data + b"yyy"
    for buf in (bytes(framed), bytearray(framed), memoryview(framed)):
        assert twin.check_batch(buf, 2, 2 + len(data)) == (0x10, 2, NOW, NOW + 2, 7, 2, 11, 3)


def test_a_range_that_is_not_exactly_the_batch_is_corrupt(twin: ModuleType) -> None:
    data = bytes(batch(2))
    for start, end in ((0, len(data) - 1), (1, len(data)), (0, 60), (0, 0), (0, len(data) + 1), (-1, 5), (5, 3)):
        with pytest.raises(errors.CorruptBatch):
            twin.check_batch(data, start, end)
    with pytest.raises(errors.CorruptBatch):
        twin.check_batch(data + b"\0", 0, len(data) + 1)


def test_every_flipped_bit_under_the_crc_is_found(twin: ModuleType) -> None:
    data = batch(1)
    for pos in range(17, len(data)):
        for bit in range(8):
            data[pos] ^= 1 << bit
            with pytest.raises(errors.CorruptBatch, match="CRC"):
                twin.check_batch(data, 0, len(data))
            data[pos] ^= 1 << bit


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_have_their_own_error(twin: ModuleType, magic: int) -> None:
    data = batch(1)
    data[16] = magic
    with pytest.raises(errors.UnsupportedMagic):
        twin.check_batch(data, 0, len(data))
    with pytest.raises(errors.UnsupportedMagic):
        twin.check_batch(data, 0, 26)  # a v0 message may be shorter than a v2 header


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_formats_nobody_knows_are_corrupt(twin: ModuleType, magic: int) -> None:
    data = batch(1)
    data[16] = magic
    with pytest.raises(errors.CorruptBatch, match="no batch"):
        twin.check_batch(data, 0, len(data))


@pytest.mark.parametrize(("delta", "count"), [(0, 0), (-1, 0), (1, 3), (0, -1), (2**31 - 1, -(2**31)), (0, 2)])
def test_a_count_that_disagrees_with_the_offsets_is_found_though_the_crc_is_right(
    twin: ModuleType, delta: int, count: int
) -> None:
    data = batch(1)
    data[23:27] = delta.to_bytes(4, "big", signed=True)
    data[57:61] = count.to_bytes(4, "big", signed=True)
    data[17:21] = twin.crc32c(data[21:]).to_bytes(4, "big")
    with pytest.raises(errors.InconsistentBatch):
        twin.check_batch(data, 0, len(data))


def test_stamping_gives_offset_and_epoch_and_leaves_the_crc_right(twin: ModuleType) -> None:
    data = bytearray(b"__") + batch(4)
    twin.stamp_batch(data, 2, 2**62 + 5, 9)
    twin.check_batch(data, 2, len(data))
    header = check_batch(data, 2)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (2**62 + 5, 9, 2**62 + 8)
    twin.stamp_batch(memoryview(data)[2:], 0, 1, -1)
    assert (read_header(data, 2).base_offset, read_header(data, 2).leader_epoch) == (1, -1)


def test_stamping_outside_the_buffer_is_refused(twin: ModuleType) -> None:
    for start in (-1, 50, 10**6):
        with pytest.raises(errors.CorruptBatch):
            twin.stamp_batch(bytearray(61), start, 0, 0)
    for start, end in ((-1, 61), (0, 62), (0, 60), (61, 0)):
        with pytest.raises(errors.CorruptBatch):
            twin.stamp_append_time(bytearray(61), start, end, 0)


def test_append_time_gives_every_record_that_time(twin: ModuleType) -> None:
    data = bytearray(b"__") + batch(3) + b"rest"
    twin.stamp_append_time(data, 2, len(data) - 4, NOW + 999)
    attributes, _, _, max_timestamp, *_ = twin.check_batch(data, 2, len(data) - 4)
    assert (attributes, max_timestamp) == (8, NOW + 999)
    assert data.endswith(b"rest")
    assert check_batch(data, 2).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_batch(data, 2)] == [NOW + 999] * 3


def test_find_offset_gives_the_batch_that_holds_it(twin: ModuleType) -> None:
    data = log(3, 1, 5, start=100)
    first, second = len(batch(3)), len(batch(3)) + len(batch(1))
    found = {offset: twin.find_offset(data, offset) for offset in range(98, 111)}
    assert found == {
        98: 0, 99: 0, 100: 0, 101: 0, 102: 0, 103: first, 104: second, 105: second, 106: second, 107: second,
        108: second, 109: -1, 110: -1,
    }  # fmt: skip


def test_find_offset_needs_only_the_header_of_the_last_batch(twin: ModuleType) -> None:
    data = log(2, 2)
    first = len(batch(2))
    assert twin.find_offset(data[: first + 61], 3) == first
    assert twin.find_offset(data[: first + 60], 3) == -1
    assert twin.find_offset(b"", 0) == -1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_lengths_that_lead_nowhere_end_every_walk(twin: ModuleType, length: int) -> None:
    data = log(1, 1)
    size = len(batch(1))
    data[size + 8 : size + 12] = length.to_bytes(4, "big", signed=True)
    assert twin.find_offset(data, 1) == -1
    assert twin.whole_batches(data) == size
    assert twin.scan_batches(data, 0, 0)[1] == size


def test_whole_batches_leaves_out_a_cut_one(twin: ModuleType) -> None:
    data = bytes(log(2, 3))
    first = len(batch(2))
    assert [twin.whole_batches(data[:cut]) for cut in (0, 1, first - 1, first, len(data) - 1, len(data))] == [
        0, 0, 0, first, first, len(data),
    ]  # fmt: skip


def test_a_scan_lists_every_batch(twin: ModuleType) -> None:
    data = bytearray(b"____") + log(2, 1, 3, start=10)
    sizes = [len(batch(n)) for n in (2, 1, 3)]
    assert twin.scan_batches(data, 4, 10) == (
        [
            (4, 10, 11, NOW + 1, sizes[0]),
            (4 + sizes[0], 12, 12, NOW, sizes[1]),
            (4 + sizes[0] + sizes[1], 13, 15, NOW + 2, sizes[2]),
        ],
        len(data),
    )
    assert twin.scan_batches(data, 4, -1) == twin.scan_batches(data, 4, 10)
    assert twin.scan_batches(data, len(data), 10) == ([], len(data))


def test_a_scan_stops_where_offsets_do_not_follow(twin: ModuleType) -> None:
    size = len(batch(2))
    assert twin.scan_batches(batch(2, 5), 0, 4) == ([], 0)
    assert twin.scan_batches(batch(2, 5), 0, 6) == ([], 0)
    gap = batch(2, 0) + batch(2, 3)
    assert twin.scan_batches(gap, 0, 0)[1] == size
    assert twin.scan_batches(gap, 0, 0, True)[1] == 2 * size
    assert twin.scan_batches(gap, 0, 1, True)[1] == 0
    repeated = batch(2, 0) + batch(2, 1)
    assert twin.scan_batches(repeated, 0, 0, True)[1] == size


@pytest.mark.parametrize(("pos", "value"), [(16, b"\1"), (17, b"\0\0\0\0"), (23, b"\xff\xff\xff\xff"), (70, b"\x55")])
def test_a_scan_stops_at_the_first_bad_batch_and_says_where(twin: ModuleType, pos: int, value: bytes) -> None:
    data = log(3, 3, 3)
    size = len(batch(3))
    data[size + pos : size + pos + len(value)] = value
    entries, end = twin.scan_batches(data, 0, 0)
    assert (len(entries), end) == (1, size)


def test_a_scan_takes_a_batch_that_compaction_emptied(twin: ModuleType) -> None:
    data = batch(3)[:61]
    data[8:12] = (49).to_bytes(4, "big")
    data[57:61] = bytes(4)
    data[17:21] = twin.crc32c(data[21:]).to_bytes(4, "big")
    assert twin.scan_batches(data, 0, 0) == ([(0, 0, 2, NOW + 2, 61)], 61)


def test_a_scan_refuses_offsets_that_end_beyond_64_bits(twin: ModuleType) -> None:
    last = 2**63 - 1
    assert twin.scan_batches(batch(2, last - 2), 0, -1)[0][0][2] == last - 1
    assert twin.scan_batches(batch(2, last - 1), 0, -1) == ([], 0)
    with pytest.raises(errors.CorruptBatch):
        twin.scan_batches(b"abc", 4, 0)


def test_the_last_header_is_that_of_the_last_whole_batch() -> None:
    data = log(3, 1, 5, start=10)
    last = last_header(data)
    assert last is not None
    assert (last.base_offset, last.last_offset) == (14, 18)
    cut = last_header(data[:-1])
    assert cut is not None
    assert cut.base_offset == 13
    assert last_header(b"") is None
    assert last_header(batch(2)[:-1]) is None
