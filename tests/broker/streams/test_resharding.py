"""Plans of reshards, without a log: ranges, lineage, and Amazon's own numbers of splits and merges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.streams.resharding import Plan, carried_out, plan_count, plan_merge, plan_split, postpone
from headrace.broker.streams.shard import HASH_KEYS, Shard, uniform_ranges, uniform_shards


def after(plan: Plan, shards: list[Shard], now_ms: int = 5000) -> list[Shard]:
    return carried_out(plan, shards, now_ms)


def open_of(shards: list[Shard]) -> list[Shard]:
    return sorted((shard for shard in shards if shard.is_open), key=lambda shard: shard.first_hash)


def ranges(shards: list[Shard]) -> list[tuple[int, int]]:
    return [(shard.first_hash, shard.last_hash) for shard in open_of(shards)]


def check_lineage(shards: list[Shard]) -> None:
    """Each closed shard went over into its children, wholly and with nothing else."""
    opened = open_of(shards)
    assert opened[0].first_hash == 0
    assert opened[-1].last_hash == HASH_KEYS - 1
    assert all(low.last_hash + 1 == high.first_hash for low, high in pairwise(opened))
    children: dict[int, list[Shard]] = {}
    for number, shard in enumerate(shards):
        assert shard.index == number
        for parent in shard.parents:
            assert parent < number
            children.setdefault(parent, []).append(shard)
    for shard in shards:
        found = children.get(shard.index, [])
        if shard.is_open:
            assert not found
            continue
        assert {child.created_ms for child in found} == {shard.closed_ms}
        assert all(child.created_ms > shard.created_ms for child in found)
        if len(found) == 2:
            low, high = sorted(found, key=lambda child: child.first_hash)
            assert (low.first_hash, high.last_hash) == (shard.first_hash, shard.last_hash)
            assert low.last_hash + 1 == high.first_hash
            assert low.parents == high.parents == (shard.index,)
        else:
            (child,) = found
            one, two = sorted((shards[index] for index in child.parents), key=lambda parent: parent.first_hash)
            assert one.last_hash + 1 == two.first_hash
            assert (child.first_hash, child.last_hash) == (one.first_hash, two.last_hash)


def test_a_split_closes_one_and_opens_two() -> None:
    shards = after(plan_split(Shard(0, 0, HASH_KEYS - 1, 1000), 77, 1), [Shard(0, 0, HASH_KEYS - 1, 1000)])
    assert (shards[0].closed_at, shards[0].closed_ms) == (0, 5000)
    assert [(s.index, s.first_hash, s.last_hash, s.parent, s.adjacent, s.created_ms, s.closed_at) for s in shards[1:]] == [
        (1, 0, 76, 0, None, 5000, None),
        (2, 77, HASH_KEYS - 1, 0, None, 5000, None),
    ]


def test_a_merge_closes_two_and_opens_one_in_either_order() -> None:
    low, high = uniform_shards(2, 1000)
    for one, two in ((low, high), (high, low)):
        shards = after(plan_merge(one, two, 2), [low, high])
        assert [shard.closed_at for shard in shards] == [0, 0, None]
        new = shards[2]
        assert (new.first_hash, new.last_hash, new.parent, new.adjacent) == (0, HASH_KEYS - 1, one.index, two.index)


def test_the_given_shards_are_not_touched() -> None:
    shards = uniform_shards(2, 1000)
    after(plan_count(shards, 4, 2), shards)
    assert all(shard.is_open and shard.closed_ms is None for shard in shards)


def test_children_are_made_later_than_their_parents_when_the_clock_stands_still_or_goes_back() -> None:
    shards = uniform_shards(1, 9000)
    shards = after(plan_split(shards[0], 1 << 127, 1), shards, now_ms=9000)
    shards = after(plan_split(shards[1], 1 << 126, 3), shards, now_ms=100)
    assert [shard.created_ms for shard in shards] == [9000, 9001, 9001, 9002, 9002]
    assert [shard.closed_ms for shard in shards] == [9001, 9002, None, None, None]


@pytest.mark.parametrize(
    ("initial", "target", "total"), [(2, 4, 6), (4, 5, 15), (10, 13, 37), (4, 2, 6), (5, 3, 7), (10, 3, 17), (3, 3, 3)]
)
def test_from_equal_ranges_it_takes_as_many_splits_and_merges_as_at_amazon(initial: int, target: int, total: int) -> None:
    shards = uniform_shards(initial, 1000)
    shards = after(plan_count(shards, target, initial), shards)
    assert len(open_of(shards)) == target
    assert len(shards) == total
    check_lineage(shards)


@pytest.mark.parametrize(("initial", "target"), [(1, 2), (2, 3), (3, 4), (4, 5), (7, 14), (8, 4), (6, 2), (9, 3), (100, 200)])
def test_ranges_are_equal_where_that_takes_no_more(initial: int, target: int) -> None:
    shards = uniform_shards(initial, 1000)
    assert ranges(after(plan_count(shards, target, initial), shards)) == uniform_ranges(target)


def test_from_equal_ranges_any_count_up_to_double_comes_out_nearly_equal() -> None:
    for initial in range(1, 41):
        for target in range(1, 2 * initial + 1):
            shards = uniform_shards(initial, 1000)
            shards = after(plan_count(shards, target, initial), shards)
            check_lineage(shards)
            found = ranges(shards)
            assert len(found) == target, (initial, target)
            sizes = [last - first + 1 for first, last in found]
            assert max(sizes) <= 2 * HASH_KEYS // target + initial, (initial, target)
            splits = initial if initial < target else 0
            assert len(shards) == initial + 2 * splits + initial + splits - target, (initial, target)


BORDERS = st.sets(st.integers(1, HASH_KEYS - 1), max_size=8) | st.sets(
    st.integers(0, 40).map(lambda number: HASH_KEYS * number // 41 or 1), max_size=8
)


@given(BORDERS, st.integers(1, 20))
def test_from_any_ranges_equal_ones_come_out_with_a_sound_lineage(borders: set[int], target: int) -> None:
    starts = [0, *sorted(borders)]
    ends = [start - 1 for start in starts[1:]] + [HASH_KEYS - 1]
    shards = [Shard(index, first, last, 1000) for index, (first, last) in enumerate(zip(starts, ends, strict=True))]
    before = ranges(shards)
    shards = after(plan_count(open_of(shards), target, len(shards)), shards)
    check_lineage(shards)
    assert len(ranges(shards)) == target
    if before != uniform_ranges(len(before)):
        assert ranges(shards) == uniform_ranges(target)


def test_a_plan_that_is_carried_out_later_keeps_its_order() -> None:
    shards = uniform_shards(4, 1000)
    plan = plan_count(shards, 5, 4)
    shards = after(plan, shards, now_ms=5000)
    postpone(plan, shards, 70)
    check_lineage(shards)
    assert {shard.created_ms for shard in shards[4:]} == {5070, 5071}
    assert [shard.closed_ms for shard in shards[:4]] == [5070] * 4
    postpone(plan, shards, -5)  # the clock went back
    assert [shard.closed_ms for shard in shards[:4]] == [5070] * 4


def test_nothing_to_do_is_an_empty_plan() -> None:
    assert plan_count(uniform_shards(3, 1), 3, 3) == Plan((), ())
