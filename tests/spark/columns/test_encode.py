"""Arrow columns to records, both twins: what comes out is what `decode_batch` reads back."""

from __future__ import annotations

from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.record.batch import decode_batch, wrap_records
from headrace.record.partitioner import partition_for_key
from headrace.spark.columns import pure_encode
from headrace.spark.columns.errors import NoSuchPartition
from headrace.spark.columns.views import headers_view, numbers_view, text_view, times_view

try:
    from headrace import _columns
except ImportError:
    TWINS = [pure_encode]
else:
    TWINS = [pure_encode, _columns]

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

content = st.none() | st.binary(max_size=40)
header = st.fixed_dictionaries({"key": st.text(max_size=5), "value": content})
row = st.fixed_dictionaries(
    {
        "key": content,
        "value": content,
        "headers": st.none() | st.lists(header, max_size=3),
        "timestamp": st.none() | st.integers(-(10**15), 10**16),
        "partition": st.none() | st.integers(0, 2),
        "topic": st.integers(0, 1),
    }
)


@pytest.fixture(params=TWINS, ids=lambda twin: twin.__name__.rsplit(".", 1)[-1])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def columns(rows: list[dict]) -> dict[str, pa.Array]:
    """With rows before and after, so that every buffer is used from its middle."""
    padded = [
        {"key": b"before", "value": b"b", "headers": [{"key": "x", "value": b"y"}], "timestamp": 7, "partition": 1, "topic": 1}
    ]
    padded = [*padded, *rows, *padded]

    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([one[name] for one in padded], kind).slice(1, len(rows))

    return {
        "key": column("key", pa.binary()),
        "value": column("value", pa.binary()),
        "headers": column("headers", HEADERS),
        "timestamp": column("timestamp", pa.timestamp("us", "UTC")),
        "partition": column("partition", pa.int32()),
        "topic": column("topic", pa.int32()),
    }


def encode(twin: ModuleType, rows: list[dict], max_bytes: int = 1 << 20) -> list[tuple[int, list[tuple]]]:
    """The batches of each target, decoded again."""
    of = columns(rows)
    topics = bytes(pa.array(of["topic"].to_pylist(), pa.int32()).buffers()[1] or b"")[: 4 * len(rows)]
    targets = twin.choose_targets(
        len(rows), text_view(of["key"]), numbers_view(of["partition"]), topics, [0, 3], [3, 4], [2, 3]
    )
    batches = twin.encode_rows(
        len(rows),
        targets,
        7,
        text_view(of["key"]),
        text_view(of["value"]),
        headers_view(of["headers"]),
        times_view(of["timestamp"]),
        NOW_MS,
        max_bytes,
    )
    return [(target, [tuple(r) for r in decode_batch(wrap_records(*records))]) for target, *records in batches]


def expected(rows: list[dict]) -> dict[int, list[tuple]]:
    found: dict[int, list[tuple]] = {}
    for one in rows:
        count, sticky, first = ((3, 2, 0), (4, 3, 3))[one["topic"]]
        partition = one["partition"]
        if partition is None:
            partition = sticky if one["key"] is None else partition_for_key(one["key"], count)
        when = NOW_MS if one["timestamp"] is None else one["timestamp"] // 1000
        headers = tuple((header["key"], header["value"]) for header in one["headers"] or ())
        found.setdefault(first + partition, []).append((when, one["key"], one["value"], headers))
    return found


@given(st.lists(row, max_size=30))
@settings(deadline=None)
def test_every_row_comes_out_once_in_its_partition_and_in_order(rows):
    for twin in TWINS:
        batches = encode(twin, rows)
        assert {target: [record[1:] for record in records] for target, records in batches} == expected(rows)
        for _, records in batches:
            assert [record[0] for record in records] == list(range(len(records)))


@given(st.lists(row, max_size=30), st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_batches_are_cut_where_they_are_full(rows, max_bytes):
    encoded = [encode(twin, rows, max_bytes) for twin in TWINS]
    assert all(one == encoded[0] for one in encoded)
    joined: dict[int, list[tuple]] = {}
    for target, records in encoded[0]:
        joined.setdefault(target, []).extend(record[1:] for record in records)
    assert joined == expected(rows)


def test_a_batch_is_no_larger_than_asked_unless_one_record_is(twin):
    values = pa.array([b"x" * 50] * 4 + [b"y" * 500] + [b"x" * 50], pa.binary())
    targets = twin.choose_targets(6, None, None, None, [0], [1], [0])
    batches = twin.encode_rows(6, targets, 1, None, text_view(values), None, None, NOW_MS, 120)
    assert [(records, len(payload) <= 120) for _, payload, records, _, _ in batches] == [
        (2, True),
        (2, True),
        (1, False),
        (1, True),
    ]


def test_the_header_of_a_batch_has_the_first_and_the_highest_timestamp(twin):
    times = pa.array([5_000_000, 3_000_999, 9_000_000, -1], pa.timestamp("us"))
    values = pa.array([b"a"] * 4, pa.binary())
    targets = twin.choose_targets(4, None, None, None, [0], [1], [0])
    ((_, payload, records, first, highest),) = twin.encode_rows(
        4, targets, 1, None, text_view(values), None, times_view(times), NOW_MS, 1 << 20
    )
    assert (records, first, highest) == (4, 5000, 9000)
    assert [r.timestamp_ms for r in decode_batch(wrap_records(payload, records, first, highest))] == [5000, 3000, 9000, -1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
def test_every_kind_of_text_that_spark_makes_is_taken(twin, kind):
    values = pa.array(["é", None, ""], pa.string()).cast(kind)
    targets = twin.choose_targets(3, text_view(values), None, None, [0], [1], [0])
    ((_, *records),) = twin.encode_rows(3, targets, 1, text_view(values), text_view(values), None, None, NOW_MS, 1 << 20)
    assert [(r.key, r.value) for r in decode_batch(wrap_records(*records))] == [("é".encode(),) * 2, (None, None), (b"", b"")]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_named(twin, partition):
    with pytest.raises(NoSuchPartition) as caught:
        twin.choose_targets(1, None, numbers_view(pa.array([partition], pa.int32())), None, [0], [3], [0])
    assert (caught.value.topic, caught.value.partition) == (0, partition)


def test_a_header_needs_a_key(twin):
    headers = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    values = pa.array([b"v"], pa.binary())
    targets = twin.choose_targets(1, None, None, None, [0], [1], [0])
    with pytest.raises(ValueError, match="a header needs a key"):
        twin.encode_rows(1, targets, 1, None, text_view(values), headers_view(headers), None, NOW_MS, 100)


def test_no_rows_make_no_batches(twin):
    nothing = pa.array([], pa.binary())
    targets = twin.choose_targets(0, text_view(nothing), None, None, [0], [1], [0])
    assert twin.encode_rows(0, targets, 1, text_view(nothing), text_view(nothing), None, None, NOW_MS, 100) == []


def test_columns_that_are_too_short_are_refused_and_not_read():
    twin = pytest.importorskip("headrace._columns")
    short = (None, 0, b"\0" * 8, b"ab")
    wrong = (None, 0, b"\0\0\0\0\x10\0\0\0", b"ab")
    for keys in (short, wrong):
        rows = 3 if keys is short else 1
        with pytest.raises(ValueError, match="shorter than its batch"):
            twin.choose_targets(rows, keys, None, None, [0], [1], [0])
    values = text_view(pa.array([b"v"], pa.binary()))
    for targets in (b"", b"\x01\0\0\0", b"\xff\xff\xff\xff"):
        with pytest.raises(ValueError, match=r"shorter than its batch|unknown target"):
            twin.encode_rows(1, targets, 1, None, values, None, None, NOW_MS, 100)
