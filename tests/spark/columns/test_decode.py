"""Record batches to Arrow columns, in both implementations, with `headrace.record` as the oracle."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.kafka.aborted import AbortedTransactions
from headrace.record.batch import Record, TimestampType, batches, decode_batch, encode_batch, filter_batch
from headrace.record.compression import Compression
from headrace.record.control import EndTransactionMarker, encode_marker
from headrace.record.errors import BatchError, BatchTooBig, CorruptBatch, UnknownCompression, UnsupportedMagic
from headrace.record.event import Event
from headrace.record.twin import crc32c
from headrace.spark.columns import pure_decode
from headrace.spark.columns.arrow import SCHEMA, SCHEMA_WITH_HEADERS, BatchMaker

try:
    from headrace import _columns as compiled

    compiled.Decoder  # noqa: B018
except (ImportError, AttributeError):
    compiled = None

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALL = 2**62
patient = settings(deadline=None)  # a busy machine is no failure


@pytest.fixture(scope="module", params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "pure":
        return pure_decode
    if compiled is None:
        pytest.skip("headrace._columns is not built; `make speed` builds it")
    return compiled


def decode(
    twin: ModuleType,
    *parts: bytes,
    first: int = 0,
    end: int = ALL,
    headers: bool = True,
    max_rows: int = 1000,
    max_bytes: int = 1 << 20,
    aborted: Callable[[], AbortedTransactions | None] = lambda: None,
) -> list[list[dict[str, Any]]]:
    """What is in the Arrow batches, one list for each. Every part is fed by itself, as one fetch answer after the other."""
    decoder = twin.Decoder(first, end, headers, max_rows, max_bytes)
    maker = BatchMaker("orders", 3)
    made = []
    for part in parts:
        decoder.feed(part, aborted())
        while decoder.fill():
            made.append(maker.make(decoder.take()))
    if decoder.rows:
        made.append(maker.make(decoder.take()))
    for batch in made:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA_WITH_HEADERS if headers else SCHEMA)
    return [batch.to_pylist() for batch in made]


def rows(twin: ModuleType, *parts: bytes, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in decode(twin, *parts, **options) for row in batch]


def expected(
    records: Iterable[Record], headers: bool = True, time_type: TimestampType = TimestampType.CREATE_TIME
) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": EPOCH + timedelta(milliseconds=record.timestamp_ms),
            "timestampType": int(time_type),
        }
        | ({"headers": [{"key": name, "value": value} for name, value in record.headers] or None} if headers else {})
        for record in records
    ]


def plain(base: int, *values: bytes | None, **options: Any) -> bytes:
    return bytes(encode_batch([Event(None, v, timestamp_ms=1000) for v in values], base_offset=base, **options))


contents = st.none() | st.binary(max_size=40)
header_lists = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)
times = st.integers(-(10**12), 10**13)
events = st.builds(Event, contents, contents, header_lists, times)
event_lists = st.lists(st.lists(events, min_size=1, max_size=12), max_size=4)
compressions = st.sampled_from(list(Compression))


def encoded(groups: list[list[Event]], compression: Compression, **options: Any) -> list[bytes]:
    made, base = [], 0
    for group in groups:
        made.append(bytes(encode_batch(group, base_offset=base, compression=compression, **options)))
        base += len(group) + 1  # a gap, as compaction leaves it
    return made


@patient
@given(event_lists, compressions, st.booleans())
def test_every_record_becomes_a_row(
    twin: ModuleType, groups: list[list[Event]], compression: Compression, headers: bool
) -> None:
    made = encoded(groups, compression)
    wanted = expected((record for one in made for record in decode_batch(one)), headers)
    assert rows(twin, b"".join(made), headers=headers) == wanted
    assert rows(twin, *made, headers=headers) == wanted


@patient
@given(event_lists, compressions, st.integers(1, 5), st.integers(1, 120))
def test_batches_are_bounded_in_rows_and_bytes_and_nothing_is_lost_at_the_seams(
    twin: ModuleType, groups: list[list[Event]], compression: Compression, max_rows: int, max_bytes: int
) -> None:
    made = encoded(groups, compression)
    found = decode(twin, *made, max_rows=max_rows, max_bytes=max_bytes)
    assert [row for batch in found for row in batch] == expected(record for one in made for record in decode_batch(one))
    for batch in found:
        assert 1 <= len(batch) <= max_rows
        size = sum(len(row["key"] or b"") + len(row["value"] or b"") for row in batch)
        assert size <= max_bytes or len(batch) == 1


@patient
@given(event_lists, st.integers(0, 40), st.integers(0, 40))
def test_offsets_outside_the_range_are_left_out(twin: ModuleType, groups: list[list[Event]], first: int, end: int) -> None:
    made = encoded(groups, Compression.NONE)
    wanted = [record for one in made for record in decode_batch(one) if first <= record.offset < end]
    assert rows(twin, b"".join(made), first=first, end=end) == expected(wanted)


@patient
@given(event_lists, compressions, st.integers(1, 6))
def test_both_make_the_same_bytes(groups: list[list[Event]], compression: Compression, max_rows: int) -> None:
    if compiled is None:
        pytest.skip("headrace._columns is not built; `make speed` builds it")
    made = b"".join(encoded(groups, compression))
    decoders = [twin.Decoder(0, ALL, True, max_rows, 1 << 20) for twin in (pure_decode, compiled)]
    for decoder in decoders:
        decoder.feed(made)
    while True:
        filled = [decoder.fill() for decoder in decoders]
        assert filled[0] == filled[1]
        assert (decoders[0].rows, decoders[0].size) == (decoders[1].rows, decoders[1].size)
        one, other = (_as_bytes(decoder.take()) for decoder in decoders)
        assert one == other
        if not filled[0]:
            return


def _as_bytes(columns: Any) -> Any:
    if columns is None or isinstance(columns, int):
        return columns
    if isinstance(columns, tuple):
        return tuple(_as_bytes(one) for one in columns)
    return bytes(columns)


def test_the_schema_is_the_one_spark_wants() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    kinds = [BinaryType(), BinaryType(), StringType(), IntegerType(), LongType(), TimestampType(), IntegerType()]
    fields = [StructField(name, kind) for name, kind in zip(SCHEMA.names, kinds, strict=True)]
    assert to_arrow_schema(StructType(fields), timezone="UTC").equals(SCHEMA)
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    fields.append(StructField("headers", ArrayType(header)))
    assert to_arrow_schema(StructType(fields), timezone="UTC").equals(SCHEMA_WITH_HEADERS)


def test_the_log_append_time_counts_where_the_batch_says_so(twin: ModuleType) -> None:
    group = [Event(b"k", b"v", timestamp_ms=5), Event(b"k", b"v", timestamp_ms=7)]
    batch = bytes(encode_batch(group, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=99))
    wanted = expected(decode_batch(batch), time_type=TimestampType.LOG_APPEND_TIME)
    assert [row["timestamp"] for row in wanted] == [EPOCH + timedelta(milliseconds=99)] * 2
    assert rows(twin, batch + plain(2, b"x"))[:2] == wanted


@pytest.mark.parametrize(("millis", "micros"), [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (-1, -1000), (0, 0)])
def test_times_beyond_what_spark_can_count_become_its_first_or_last(twin: ModuleType, millis: int, micros: int) -> None:
    decoder = twin.Decoder(0, 10, False, 10, 1000)
    decoder.feed(bytes(encode_batch([Event(b"k", b"v", timestamp_ms=millis)])))
    decoder.fill()
    assert int.from_bytes(bytes(decoder.take()[4]), "little", signed=True) == micros


def test_a_header_name_that_is_no_utf8_gets_replacement_characters(twin: ModuleType) -> None:
    batch = bytes(encode_batch([Event(b"k", b"v", (("a\udcff", b"1"), ("é", None)), 0)]))
    assert rows(twin, batch)[0]["headers"] == [{"key": "a�", "value": b"1"}, {"key": "é", "value": None}]


def test_nulls_are_marked_from_the_first_one_on(twin: ModuleType) -> None:
    values = [b"x"] * 21 + [None] + [b""] * 3 + [None] * 9 + [b"y"]
    assert [row["value"] for row in rows(twin, plain(0, *values))] == values


def test_batches_emptied_by_compaction_are_passed_over(twin: ModuleType) -> None:
    full = plain(0, b"a", b"b", compression=Compression.ZSTD)
    parts = [filter_batch(full, lambda _: False), filter_batch(plain(2, b"c", b"d"), lambda record: record.offset == 3)]
    assert [row["offset"] for row in rows(twin, b"".join(map(bytes, parts)))] == [3]


def test_a_cut_batch_at_the_end_is_left_for_the_next_fetch(twin: ModuleType) -> None:
    whole, cut = plain(0, b"a"), plain(1, b"b")
    for size in range(len(cut)):
        assert [row["offset"] for row in rows(twin, whole + cut[:size])] == [0]
        assert twin.survey(whole + cut[:size]) == (len(whole), 1)


def test_the_survey_tells_the_next_offset_without_looking_into_batches(twin: ModuleType) -> None:
    assert twin.survey(b"") == (0, -1)
    made = plain(5, b"a", b"b") + plain(10, b"c", compression=Compression.LZ4)
    assert twin.survey(memoryview(made)) == (len(made), 11)


# Transactions


def in_transaction(base: int, producer_id: int, *values: bytes) -> bytes:
    return plain(base, *values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    end = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    return bytes(encode_marker(end, producer_id=producer_id, producer_epoch=0, now_ms=0, base_offset=base))


MIXED = b"".join(
    [
        in_transaction(0, 7, b"aborted"),
        in_transaction(1, 8, b"committed"),
        plain(2, b"plain"),
        in_transaction(3, 7, b"aborted too"),
        marker(4, 7, commit=False),
        in_transaction(5, 7, b"the next one"),
        marker(6, 8, commit=True),
        marker(7, 7, commit=True),
        plain(8, b"last"),
    ]
)


def test_records_of_aborted_transactions_and_markers_are_left_out(twin: ModuleType) -> None:
    found = rows(twin, MIXED, aborted=lambda: AbortedTransactions([(0, 7)]))
    assert [(row["offset"], row["value"]) for row in found] == [
        (1, b"committed"),
        (2, b"plain"),
        (5, b"the next one"),
        (8, b"last"),
    ]


def test_an_abort_that_began_before_what_is_asked_for_still_counts(twin: ModuleType) -> None:
    found = rows(twin, MIXED, first=2, aborted=lambda: AbortedTransactions([(0, 7)]))
    assert [row["offset"] for row in found] == [2, 5, 8]


def test_without_a_list_of_aborted_transactions_only_markers_are_left_out(twin: ModuleType) -> None:
    assert [row["offset"] for row in rows(twin, MIXED)] == [0, 1, 2, 3, 5, 8]


# Hostile bytes


def resealed(batch: bytes) -> bytes:
    """With a CRC that is right for whatever the batch holds now."""
    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def both_say(twin: ModuleType, data: bytes) -> None:
    """Either the oracle and the twin decode the same, or both refuse with a BatchError."""
    try:
        wanted = expected(record for header, one in batches(data) if not header.control for record in decode_batch(one))
    except BatchError:
        wanted = None
    except OverflowError:  # a time that Python's datetime does not have
        return
    try:
        found = rows(twin, data, first=-ALL)
    except BatchError:
        return  # offsets that no partition has are refused here, and taken by the oracle
    except (OverflowError, ValueError):
        return
    assert wanted is not None
    if any("�" in header["key"] for row in found for header in row["headers"] or ()):
        return
    assert found == [row for row in wanted if -ALL <= row["offset"] < ALL]


@patient
@given(events_=st.lists(events, min_size=1, max_size=6), data=st.data())
def test_broken_records_under_a_right_crc_never_read_beyond_their_bytes(
    twin: ModuleType, events_: list[Event], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(events_))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(57, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    both_say(twin, resealed(bytes(batch)))


@patient
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_no_batch(twin: ModuleType, data: bytes) -> None:
    both_say(twin, data)
    shell = bytearray(plain(0, b"x"))
    shell[61:] = data
    shell[8:12] = (len(shell) - 12).to_bytes(4, "big")
    both_say(twin, resealed(bytes(shell)))


def test_many_random_changes_find_nothing_but_batch_errors(twin: ModuleType) -> None:
    chance = random.Random(6)
    source = plain(0, *[bytes([i]) * i for i in range(30)]) + plain(30, b"z" * 300, compression=Compression.SNAPPY)
    for _ in range(3000):
        batch = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            batch[chance.randrange(len(batch))] = chance.randrange(256)
        first = int.from_bytes(batch[8:12], "big") + 12
        whole = bytes(batch[:first])
        data = resealed(whole) + bytes(batch[first:]) if len(whole) > 61 and chance.random() < 0.8 else bytes(batch)
        try:
            for columns in decode(twin, data, first=-ALL, end=ALL):
                assert columns
        except (BatchError, OverflowError, ValueError):
            pass


def test_a_wrong_crc_is_refused(twin: ModuleType) -> None:
    batch = bytearray(plain(0, b"value"))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match="wrong CRC"):
        rows(twin, bytes(batch))


def test_old_and_unknown_formats_are_refused(twin: ModuleType) -> None:
    for magic, error in ((0, UnsupportedMagic), (1, UnsupportedMagic), (3, CorruptBatch)):
        batch = bytearray(plain(0, b"value"))
        batch[16] = magic
        with pytest.raises(error):
            rows(twin, bytes(batch))


def test_a_count_that_lies_is_refused(twin: ModuleType) -> None:
    for count in (-1, 1, 3, 2**31 - 1):
        batch = bytearray(plain(0, b"a", b"b"))
        batch[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptBatch):
            rows(twin, resealed(bytes(batch)))


def test_offsets_that_no_partition_has_are_refused(twin: ModuleType) -> None:
    for base, delta in ((-1, 0), (2**63 - 1, 0), (0, -1)):
        batch = bytearray(plain(0, b"a"))
        batch[0:8] = base.to_bytes(8, "big", signed=True)
        batch[23:27] = delta.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptBatch):
            rows(twin, resealed(bytes(batch)), end=2**63 - 1)
        assert twin.survey(bytes(batch)) == (0, -1)


def test_an_unknown_compression_and_a_bomb_are_refused(twin: ModuleType) -> None:
    unknown = bytearray(plain(0, b"a"))
    unknown[22] |= 5
    with pytest.raises(UnknownCompression):
        rows(twin, resealed(bytes(unknown)))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(129)), packer.flush()])
    batch = bytearray(plain(0, b"a"))
    batch[61:] = bomb
    batch[22] |= Compression.GZIP
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(BatchTooBig):
        rows(twin, resealed(bytes(batch)))


def test_after_an_error_the_decoder_takes_the_next_batches(twin: ModuleType) -> None:
    decoder = twin.Decoder(0, 100, False, 10, 1000)
    decoder.feed(b"".join([plain(0, b"a"), plain(1, b"b")[:-1] + b"\xff"]))
    with pytest.raises(CorruptBatch):
        decoder.fill()
    assert decoder.fill() is False


def test_the_first_offset_may_be_moved_on(twin: ModuleType) -> None:
    decoder = twin.Decoder(0, 100, False, 10, 1000)
    decoder.first = 2
    decoder.feed(plain(0, b"a", b"b", b"c"))
    decoder.fill()
    assert BatchMaker("t", 0).make(decoder.take()).column("value").to_pylist() == [b"c"]


# Large things


def test_one_huge_record_gets_columns_of_its_own(twin: ModuleType) -> None:
    huge = bytes(3 << 20)
    found = decode(twin, plain(0, b"small", huge, b"small too"), max_bytes=1 << 20, headers=False)
    assert [[len(row["value"]) for row in batch] for batch in found] == [[5], [len(huge)], [9]]


def test_columns_outlive_the_decoder_and_its_input(twin: ModuleType) -> None:
    source = bytearray(plain(0, b"first", b"second"))
    decoder = twin.Decoder(0, 10, True, 10, 1000)
    decoder.feed(source)
    decoder.fill()
    batch = BatchMaker("t", 0).make(decoder.take())
    del decoder
    source[:] = bytes(len(source))  # resizing would fail while the decoder still held it; the bytes are used again
    source.clear()
    assert batch.column("value").to_pylist() == [b"first", b"second"]
