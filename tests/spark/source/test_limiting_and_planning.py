"""How a micro-batch is bounded and cut into tasks: functions of offsets alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.kafka.partitions import TopicPartition
from headrace.spark.pieces import Piece
from headrace.spark.source.limiting import share_out
from headrace.spark.source.offsets import Offsets, from_checkpoint, from_json, to_checkpoint
from headrace.spark.source.planning import plan

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "ab"]), st.integers(0, 12))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**62), max_size=12)
SMALL = st.dictionaries(PARTITIONS, st.integers(0, 60), max_size=12)


def at(*offsets: int) -> Offsets:
    return {TopicPartition("t", index): offset for index, offset in enumerate(offsets)}


def waiting(start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    return {one: last - start.get(one, 0) for one, last in end.items() if last > start.get(one, 0)}


# Limiting


def test_the_bound_is_shared_in_proportion_to_what_waits() -> None:
    assert share_out(100, at(0, 0, 10), at(100, 300, 610)) == at(10, 30, 70)


def test_a_small_partition_gives_one_record_at_least() -> None:
    assert share_out(10, at(0, 0), at(1_000_000, 1)) == at(9, 1)


def test_a_bound_below_the_number_of_partitions_still_takes_one_from_each() -> None:
    assert share_out(1, at(5, 5, 5), at(9, 9, 5)) == at(6, 6, 5)


def test_everything_is_taken_when_it_fits() -> None:
    assert share_out(7, at(0, 3), at(4, 6)) == at(4, 6)


def test_a_partition_that_was_added_counts_from_its_beginning() -> None:
    assert share_out(10, at(100), at(110, 10)) == at(105, 5)


def test_offsets_beyond_what_a_float_can_hold_are_exact() -> None:
    start, end = at(2**62, 0), at(2**62 + 3, 2**61)
    assert share_out(2**61 - 1, start, end) == at(2**62 + 3, 2**61 - 4)


def test_a_partition_that_ends_before_its_start_is_left_as_it_is() -> None:
    assert share_out(1, at(50, 0), at(20, 10)) == at(20, 1)


@given(st.integers(1, 2**62), OFFSETS, OFFSETS)
def test_a_bounded_batch_always_makes_progress_and_keeps_its_bound(most: int, start: Offsets, end: Offsets) -> None:
    bounded = share_out(most, start, end)
    assert bounded.keys() == end.keys()
    there = waiting(start, end)
    taken = waiting(start, bounded)
    assert taken.keys() == there.keys()  # every partition that has something gives something
    assert all(taken[one] <= there[one] for one in there)
    assert sum(taken.values()) == min(max(most, len(there)), sum(there.values()))
    assert all(bounded[one] == end[one] for one in end.keys() - there.keys())


@given(st.integers(1, 50), SMALL, SMALL)
def test_bounded_batches_reach_the_end_and_stop(most: int, start: Offsets, end: Offsets) -> None:
    end = {one: max(offset, start.get(one, 0)) for one, offset in end.items()}
    position = {one: offset for one, offset in start.items() if one in end}
    batches = 0
    while (following := share_out(most, position, end)) != position:
        position, batches = following, batches + 1
        assert batches <= 13 * 60
    assert position == end


@given(st.integers(1, 1000), OFFSETS, OFFSETS)
def test_the_order_in_which_partitions_come_does_not_matter(most: int, start: Offsets, end: Offsets) -> None:
    backwards = dict(reversed(end.items()))
    assert share_out(most, start, end) == share_out(most, dict(reversed(start.items())), backwards)


# Planning


def test_a_piece_for_each_partition_that_has_records_in_their_order() -> None:
    start = {TopicPartition("b", 10): 5, TopicPartition("b", 9): 1, TopicPartition("a", 0): 7}
    end = {TopicPartition("b", 10): 6, TopicPartition("b", 9): 4, TopicPartition("a", 0): 7, TopicPartition("a", 1): 2}
    assert plan(start, end) == [Piece("a", 1, 0, 2), Piece("b", 9, 1, 4), Piece("b", 10, 5, 6)]


def test_min_partitions_cuts_large_pieces_in_proportion() -> None:
    found = plan(at(0, 0, 0), at(10, 500, 490), min_partitions=5)
    assert found == [
        Piece("t", 0, 0, 10),
        Piece("t", 1, 0, 250),
        Piece("t", 1, 250, 500),
        Piece("t", 2, 0, 245),
        Piece("t", 2, 245, 490),
    ]


def test_min_partitions_that_are_there_anyway_change_nothing() -> None:
    assert plan(at(0, 0), at(10, 500), min_partitions=2) == [Piece("t", 0, 0, 10), Piece("t", 1, 0, 500)]


def test_max_records_cuts_into_even_pieces() -> None:
    assert plan(at(0), at(10), max_records=4) == [Piece("t", 0, 0, 3), Piece("t", 0, 3, 6), Piece("t", 0, 6, 10)]


def test_there_are_never_more_pieces_than_records() -> None:
    assert plan(at(0), at(2), min_partitions=50) == [Piece("t", 0, 0, 1), Piece("t", 0, 1, 2)]
    assert plan(at(3), at(3), min_partitions=50) == []


@given(OFFSETS, OFFSETS, st.none() | st.integers(1, 40), st.none() | st.integers(2**57, 2**62))
def test_pieces_cover_what_is_there_once_and_in_order(
    start: Offsets, end: Offsets, min_partitions: int | None, max_records: int | None
) -> None:
    pieces = plan(start, end, min_partitions=min_partitions, max_records=max_records)
    there = waiting(start, end)
    assert all(piece.end > piece.start for piece in pieces)
    assert pieces == sorted(pieces, key=lambda one: (one.topic, one.partition, one.start))
    for partition in {TopicPartition(piece.topic, piece.partition) for piece in pieces} | there.keys():
        of_it = [piece for piece in pieces if (piece.topic, piece.partition) == partition]
        edges = [piece.start for piece in of_it] + [of_it[-1].end]
        assert edges == [of_it[0].start, *(piece.end for piece in of_it)]
        assert (edges[0], edges[-1]) == (start.get(partition, 0), end[partition])
    if max_records is not None:
        assert all(piece.end - piece.start <= max_records for piece in pieces)


@given(SMALL, SMALL, st.integers(1, 40))
def test_a_plan_made_again_is_the_same_whatever_the_order_of_its_offsets(start: Offsets, end: Offsets, wanted: int) -> None:
    again = plan(dict(reversed(start.items())), dict(reversed(end.items())), min_partitions=wanted)
    assert plan(start, end, min_partitions=wanted) == again
    assert len(again) <= max(wanted * 2, len(end))


# The checkpoint


def test_offsets_are_written_as_sparks_connector_writes_them() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    assert list(to_checkpoint(offsets).items()) == [("a", {"0": 3}), ("b", {"9": 2, "10": 1})]
    assert list(to_checkpoint(offsets)["b"]) == ["9", "10"]


@given(OFFSETS)
def test_offsets_come_back_from_a_checkpoint(offsets: Offsets) -> None:
    assert from_checkpoint(to_checkpoint(offsets)) == offsets
    assert from_json(to_checkpoint(offsets)) == offsets
