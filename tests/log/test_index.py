"""The sparse index against a plain list, and against files that lie."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.embedded.index import ENTRY_BYTES, SparseIndex
from headrace.log.embedded.reading import batches

STEPS = st.lists(st.tuples(st.integers(1, 1000), st.integers(61, 100_000), st.integers(-1, 50)), max_size=50)


def _build(steps: list[tuple[int, int, int]]) -> tuple[SparseIndex, list[tuple[int, int, int]]]:
    index, entries = SparseIndex(), []
    offset = position = 0
    latest = -1
    for records, size, later in steps:
        latest = max(latest, latest + later)
        entries.append((offset, position, latest))
        index.add(offset, position, latest)
        offset, position = offset + records, position + size
    return index, entries


@settings(deadline=None)
@given(STEPS, st.integers(0, 60_000), st.integers(-5, 2000))
def test_lookups_agree_with_a_list(steps: list[tuple[int, int, int]], offset: int, when: int) -> None:
    index, entries = _build(steps)
    at_or_before = [entry[:2] for entry in entries if entry[0] <= offset]
    assert index.before_offset(offset) == (at_or_before[-1] if at_or_before else (0, 0))
    earlier = [entry[:2] for entry in entries if entry[2] < when]
    assert index.before_time(when) == (earlier[-1] if earlier else (0, 0))


@settings(deadline=None)
@given(STEPS, st.integers(0, 50))
def test_saved_in_two_steps_and_loaded_it_is_the_same(steps: list[tuple[int, int, int]], first: int) -> None:
    index, entries = _build(steps[:first])
    where, content, count = index.unsaved()
    assert where == 0
    index.saved = count
    for entry in _build(steps)[1][first:]:
        index.add(*entry)
    where, more, count = index.unsaved()
    assert where == len(content)
    loaded = SparseIndex.load(content + more)
    entries = _build(steps)[1]
    assert [loaded.entry(number) for number in range(len(loaded))] == entries
    assert loaded.saved == count == len(entries)


@settings(deadline=None)
@given(STEPS, st.integers(0, 800), st.binary(max_size=40))
def test_whatever_is_in_the_file_what_is_loaded_grows(steps: list[tuple[int, int, int]], at: int, junk: bytes) -> None:
    content = bytearray(_build(steps)[0].unsaved()[1])
    content[at : at + len(junk)] = junk
    index = SparseIndex.load(bytes(content))
    entries = [index.entry(number) for number in range(len(index))]
    assert all(one[0] <= two[0] and one[:2] < two[:2] and one[2] <= two[2] for one, two in pairwise(entries))
    assert len(index) <= len(content) // ENTRY_BYTES


def test_cut_forgets_what_lies_behind() -> None:
    index, entries = _build([(1, 100, 0)] * 5)
    index.saved = 5
    index.cut(200)
    assert len(index) == index.saved == 2
    assert index.entry(1) == entries[1]


class TestInASegment:
    @pytest.fixture
    def filled(self, rig: Any) -> Any:
        rig.create("t", index_interval_bytes="300", internal_segment_bytes="5000")
        for number in range(60):
            rig.append(b"%d" % number, timestamp_ms=rig.clock.now_ms() + number)
        rig.settle()
        rig.checkpoint()
        return rig

    def test_there_is_an_entry_for_about_every_interval(self, filled: Any) -> None:
        segment = filled.partition().segments[0]
        positions = [segment.index.entry(number)[1] for number in range(len(segment.index))]
        assert positions[0] == 0
        gaps = [two - one for one, two in pairwise(positions)]
        assert all(300 <= gap < 300 + 100 for gap in gaps)

    @pytest.mark.parametrize("junk", [b"", b"\0" * 160, b"\xff" * 160, bytes(range(256))])
    def test_a_file_that_lies_costs_a_scan_and_nothing_else(self, filled: Any, junk: bytes) -> None:
        before = filled.values()
        filled.close()
        for path in [path for path in filled.files("topics") if path.endswith(".index")]:
            filled.disk.open(path).truncate(0)
            filled.disk.open(path).write(0, (junk,))
        filled.open()
        self.check(filled, before)

    def test_entries_of_another_layout_between_true_ones_are_found_out(self, filled: Any) -> None:
        before = filled.values()
        times = [(record.offset, record.timestamp_ms) for record in filled.records()]
        filled.close()
        for path in [path for path in filled.files("topics") if path.endswith(".index")]:
            content = bytearray(filled.disk.open(path).read(0, 10_000))
            if len(content) > 5 * ENTRY_BYTES:
                content[2 * ENTRY_BYTES + 7] ^= 3  # the third entry points beside its batch
                filled.disk.open(path).write(0, (content,))
        filled.open()
        partition = filled.partition()
        for offset, when in times:
            assert filled.run(partition.offset_at(when)).offset == offset
            assert next(batches(partition, offset, partition.end_offset))[1][1] == offset
        self.check(filled, before)

    def test_a_walk_through_the_past_leaves_few_indexes_in_memory(self, filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headrace.log.embedded.loaded._MAX_INDEXES", 2)
        for number in range(300):
            filled.append(b"%d" % number, timestamp_ms=filled.clock.now_ms() + 100 + number)
        filled.settle()
        before = filled.values()
        filled.restart()
        segments = filled.partition().segments
        assert len(segments) > 4
        for _ in range(2):
            self.check(filled, before)
            assert sum(segment._index is not None for segment in segments) <= 3
            for segment in segments:
                segment.learn_timestamps()
            assert len(filled.log.files.indexes) <= 2

    def test_an_index_that_can_not_be_saved_is_used_all_the_same(self, filled: Any) -> None:
        before = filled.values()
        filled.close()
        for path in [path for path in filled.files("topics") if path.endswith(".index")]:
            filled.disk.remove(path)
        filled.open()
        filled.disk.capacity_bytes = filled.disk.used_bytes()
        self.check(filled, before)

    def check(self, rig: Any, before: list[bytes]) -> None:
        assert rig.values() == before
        partition = rig.partition()
        for offset in range(partition.start_offset, partition.end_offset):
            assert rig.read(offset, 1)
        first = rig.records()[0]
        for record in rig.records()[::7]:
            found = rig.run(partition.offset_at(record.timestamp_ms))
            assert (found.offset, found.timestamp_ms) == (record.offset, record.timestamp_ms)
        assert rig.run(partition.offset_at(0)).offset == first.offset
