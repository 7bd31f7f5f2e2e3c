"""The map of keys and its filter, compiled and pure: against the rules, record by record, and against each other."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.embedded.offset_map import PureOffsetMap, empty_batch, offset_map
from headrace.record import CorruptBatch, Event, batches, decode_batch, encode_batch, read_header
from headrace.record.batch import TimestampType

compact = pytest.importorskip("headrace._compact", reason="the compiled twin was not built")

SEED = bytes(range(16))
NOW, HORIZON = 10_000, 90_000
MAPS = [pytest.param(PureOffsetMap, id="pure"), pytest.param(compact.OffsetMap, id="compiled")]

KEYS = st.sampled_from((b"", b"a", b"b", b"c", b"long key " * 9, None))
VALUES = st.sampled_from((None, b"", b"v", b"x" * 200))
HEADERS = st.sampled_from(((), (("h", b"1"),), (("h", None), ("i", b""))))
EVENTS = st.lists(
    st.builds(Event, KEYS, VALUES, HEADERS, st.integers(-1, 200_000)),
    min_size=1,
    max_size=6,
)


def log_of(many: list[list[Event]], **how: Any) -> bytes:
    out, base = bytearray(), 0
    for events in many:
        out += encode_batch(events, base_offset=base, **how)
        base += len(events)
    return bytes(out)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    out, base = bytearray(), 0
    for events in draw(st.lists(EVENTS, min_size=1, max_size=6)):
        kind = draw(st.sampled_from(TimestampType))
        out += encode_batch(events, base_offset=base, timestamp_type=kind, now_ms=77_777)
        base += len(events) + draw(st.integers(0, 2))
    return bytes(out)


def filtered(made: Any, data: bytes, now_ms: int = NOW, retained: tuple[int, ...] = (), upper: int = -1) -> bytes:
    out, position, written, last_at = made.filter_batches(data, 0, now_ms, HORIZON, array("q", retained), upper)
    assert position == len(data)
    starts = [start for start, _, _ in written]
    found = list(batches(out))
    assert [header.base_offset for header, _ in found] == [base for _, base, _ in written]
    assert [header.max_timestamp_ms for header, _ in found] == [newest for _, _, newest in written]
    assert starts == [sum(header.size for header, _ in found[:number]) for number in range(len(found))]
    assert last_at == (_positions(data) or [-1])[-1]
    return bytes(out)


def _positions(data: bytes) -> list[int]:
    found, position = [], 0
    for header, _ in batches(data):
        found.append(position)
        position += header.size
    return found


def shown(data: bytes) -> list[tuple[Any, ...]]:
    return [tuple(record) for _, view in batches(data) for record in decode_batch(view)]


@pytest.mark.parametrize("kind", MAPS)
@given(data=logs())
def test_the_newest_of_each_key_stays_where_it_was(kind: Callable[..., Any], data: bytes) -> None:
    made = kind(64, 60, SEED)
    assert made.add_batches(data, 0, 0) == (len(data), False)
    records = shown(data)
    newest = {record[2]: record[0] for record in records}
    kept = filtered(made, data)
    assert shown(kept) == [record for record in records if record[2] is not None and newest[record[2]] == record[0]]
    for header, view in batches(kept):
        decode_batch(view)  # its CRC is right
        tombstones = any(record.value is None for record in decode_batch(view))
        assert header.delete_horizon_ms == (HORIZON if tombstones else None)
        original = next(one for one, _ in batches(data) if one.base_offset == header.base_offset)
        assert (header.last_offset, header.base_sequence) == (original.last_offset, original.base_sequence)
    assert filtered(made, kept) == kept, "and again nothing changes"
    later = filtered(made, kept, now_ms=HORIZON)
    assert shown(later) == [record for record in shown(kept) if record[3] is not None]


@settings(max_examples=200)
@given(
    data=logs(),
    start=st.integers(0, 20),
    limit=st.integers(1, 6),
    retained=st.sets(st.integers(0, 30)),
    upper=st.integers(0, 30),
)
def test_both_twins_say_the_same(data: bytes, start: int, limit: int, retained: set[int], upper: int) -> None:
    pure, compiled = PureOffsetMap(8, limit, SEED), compact.OffsetMap(8, limit, SEED)
    assert pure.add_batches(data, 0, start) == compiled.add_batches(data, 0, start)
    assert (pure.entries, pure.latest, pure.slots, pure.limit) == (
        compiled.entries,
        compiled.latest,
        compiled.slots,
        compiled.limit,
    )
    for key in (b"", b"a", b"b", b"c", b"long key " * 9):
        assert pure.get(key) == compiled.get(key)
    ends = tuple(sorted(retained))
    once = [filtered(made, data, NOW, ends, upper) for made in (pure, compiled)]
    assert once[0] == once[1]
    if once[0]:
        again = [filtered(made, once[0], HORIZON, ends, upper) for made in (pure, compiled)]
        assert again[0] == again[1]


@pytest.mark.parametrize("kind", MAPS)
def test_when_the_map_is_full_it_says_how_far_it_came(kind: Callable[..., Any]) -> None:
    data = log_of([[Event(b"%d" % number, b"v", timestamp_ms=1)] for number in range(10)])
    made = kind(16, 4, SEED)
    position, full = made.add_batches(data, 0, 0)
    assert (full, made.entries, made.latest) == (True, 4, 3)
    assert position == _positions(data)[4]
    assert [record[0] for record in shown(filtered(made, data))] == list(range(10)), "what it does not know stays"


@pytest.mark.parametrize("kind", MAPS)
def test_a_full_map_still_takes_keys_that_it_knows(kind: Callable[..., Any]) -> None:
    data = log_of([[Event(b"%d" % (number % 4), b"v", timestamp_ms=1)] for number in range(12)])
    made = kind(4, 4, SEED)
    assert made.add_batches(data, 0, 0) == (len(data), False)
    assert [record[0] for record in shown(filtered(made, data))] == [8, 9, 10, 11]


@pytest.mark.parametrize("kind", MAPS)
def test_a_header_stays_where_a_producer_or_the_end_needs_it(kind: Callable[..., Any]) -> None:
    many = [[Event(b"k", b"v%d" % number, timestamp_ms=5), Event(b"k", b"w", timestamp_ms=6)] for number in range(4)]
    data = log_of(many, producer_id=7, producer_epoch=1, base_sequence=40)
    made = kind(8, 8, SEED)
    made.add_batches(data, 0, 0)
    kept = filtered(made, data, retained=(3,), upper=2)
    headers = [header for header, _ in batches(kept)]
    assert [(h.base_offset, h.last_offset, h.record_count, h.base_sequence) for h in headers] == [
        (0, 1, 0, 40),
        (2, 3, 0, 40),
        (6, 7, 1, 40),
    ]
    assert [h.max_timestamp_ms for h in headers] == [6, 6, 6]
    assert bytes(next(batches(kept))[1]) == bytes(empty_batch(data))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("at", [30, 61, 66, 70])
def test_a_damaged_batch_is_noticed(kind: Callable[..., Any], at: int) -> None:
    data = bytearray(log_of([[Event(b"key", b"value", timestamp_ms=1)]] * 2))
    second = _positions(bytes(data))[1]
    data[second + at] ^= 0xFF
    made = kind(8, 8, SEED)
    with pytest.raises(CorruptBatch, match=f"byte {second}"):
        made.add_batches(data, 0, 0)
    with pytest.raises(CorruptBatch, match=f"byte {second}"):
        made.filter_batches(data, 0, NOW, HORIZON, array("q"), -1)


@pytest.mark.parametrize("kind", MAPS)
@given(payload=st.binary(max_size=60), count=st.integers(-1, 5))
def test_any_bytes_are_records_or_refused(kind: Callable[..., Any], payload: bytes, count: int) -> None:
    made = kind(8, 8, SEED)
    for work in (lambda: made.add_records(payload, count, 0, 0), lambda: made.filter_records(payload, count, 0, 0, True)):
        try:
            work()
        except CorruptBatch:
            pass


@pytest.mark.parametrize("kind", MAPS)
def test_it_stops_before_what_is_not_plain(kind: Callable[..., Any]) -> None:
    plain = log_of([[Event(b"k", b"v", timestamp_ms=1)]])
    for how in ({"transactional": True, "producer_id": 1}, {"control": True, "producer_id": 1}):
        special = log_of([[Event(b"k", b"v", timestamp_ms=1)]], **how)
        made = kind(8, 8, SEED)
        assert made.add_batches(plain + special, 0, 0) == (len(plain), False)
        assert made.filter_batches(plain + special, 0, NOW, HORIZON, array("q"), -1)[1] == len(plain)
    assert kind(8, 8, SEED).add_batches(plain + plain[:-1], 0, 0) == (len(plain), False), "or not whole"


def test_the_map_is_never_larger_than_its_buffer_nor_than_it_needs() -> None:
    made = offset_map(1 << 20, 0.5, 1 << 40, SEED)
    assert made.slots * made.BYTES_PER_SLOT <= 1 << 20
    assert made.limit == made.slots // 2
    assert offset_map(1 << 30, 0.9, 10, SEED).slots == 12


def test_a_horizon_moves_no_timestamp() -> None:
    data = log_of([[Event(b"a", None, timestamp_ms=5), Event(b"b", b"v", timestamp_ms=2**41)]])
    for made in (PureOffsetMap(8, 8, SEED), compact.OffsetMap(8, 8, SEED)):
        made.add_batches(data, 0, 0)
        kept = filtered(made, data)
        assert [record[1] for record in shown(kept)] == [5, 2**41]
        assert read_header(kept).base_timestamp_ms == HORIZON
