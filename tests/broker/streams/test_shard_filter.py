"""Which shards each filter shows."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.streams.conftest import Site, check_shape

from headrace.broker.streams.shard import Shard
from headrace.broker.streams.shard_filter import FilterType, filtered, shown_shards, trim_horizon_ms

END = (1 << 128) - 1
HALF = 1 << 127

# 0 was split at 2000 into 1 and 2; 2 was merged with 3, which was there from the start, at 3000 into 4
SHARDS = [
    Shard(0, 0, 99, 1000, closed_ms=2000, closed_at=5),
    Shard(1, 0, 49, 2000, parent=0),
    Shard(2, 50, 99, 2000, parent=0, closed_ms=3000, closed_at=2),
    Shard(3, 100, END, 1000, closed_ms=3000, closed_at=9),
    Shard(4, 50, END, 3000, parent=2, adjacent=3),
]


def shown(kind: FilterType, horizon_ms: int = 1000, **given: int) -> list[int]:
    return [shard.index for shard in filtered(SHARDS, kind, horizon_ms, **given)]


def test_after_a_shard() -> None:
    assert shown(FilterType.AFTER_SHARD_ID, after=2) == [3, 4]
    assert shown(FilterType.AFTER_SHARD_ID, after=4) == []
    assert shown(FilterType.AFTER_SHARD_ID) == [0, 1, 2, 3, 4]


def test_at_latest_and_from_the_trim_horizon() -> None:
    assert shown(FilterType.AT_LATEST) == [1, 4]
    assert shown(FilterType.FROM_TRIM_HORIZON) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("horizon_ms", "expected"), [(1000, [0, 3]), (1999, [0, 3]), (2000, [1, 2, 3]), (3000, [1, 4])])
def test_at_the_trim_horizon(horizon_ms: int, expected: list[int]) -> None:
    assert shown(FilterType.AT_TRIM_HORIZON, horizon_ms) == expected


@pytest.mark.parametrize(
    ("time_ms", "expected"), [(999, []), (1000, [0, 3]), (1999, [0, 3]), (2500, [1, 2, 3]), (3000, [1, 4]), (9000, [1, 4])]
)
def test_at_a_time(time_ms: int, expected: list[int]) -> None:
    assert shown(FilterType.AT_TIMESTAMP, time_ms=time_ms) == expected


@pytest.mark.parametrize(
    ("time_ms", "horizon_ms", "expected"),
    [
        (0, 0, [0, 1, 2, 3, 4]),
        (2000, 0, [0, 1, 2, 3, 4]),
        (2001, 0, [1, 2, 3, 4]),
        (3001, 0, [1, 4]),
        (0, 2500, [1, 2, 3, 4]),  # before the trim horizon there is nothing
    ],
)
def test_from_a_time(time_ms: int, horizon_ms: int, expected: list[int]) -> None:
    assert shown(FilterType.FROM_TIMESTAMP, horizon_ms, time_ms=time_ms) == expected


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3)), max_size=6))
def test_at_any_time_the_shards_that_were_open_then_have_all_hash_keys(steps: list[tuple[int, int, int]]) -> None:
    site = Site()
    stream = site.make(shards=2)
    first_ms = stream.created_ms
    for kind, number, later_s in steps:
        site.rig.advance(float(later_s))
        opened = stream.open_shards
        shard = opened[number % len(opened)]
        if kind == 0:
            site.split(stream, shard.index)
        elif kind == 1 and len(opened) > 1:
            place = number % (len(opened) - 1)
            site.merge(stream, opened[place].index, opened[place + 1].index)
        else:
            site.run(site.streams.update_count(stream, len(opened) + 1))
    check_shape(stream)
    times = {shard.created_ms + more for shard in stream.shards for more in (-1, 0, 1)}
    for time_ms in sorted(time for time in times if time >= first_ms):
        there = sorted(filtered(stream.shards, FilterType.AT_TIMESTAMP, 0, time_ms=time_ms), key=lambda shard: shard.first_hash)
        assert there[0].first_hash == 0
        assert there[-1].last_hash == END
        assert all(low.last_hash + 1 == high.first_hash for low, high in itertools.pairwise(there))
    site.rig.end()


def test_the_trim_horizon_is_where_retention_ends_or_the_stream_begins(site: Site) -> None:
    stream = site.make()
    made_ms = stream.created_ms
    assert trim_horizon_ms(stream, made_ms + 1000) == made_ms
    assert trim_horizon_ms(stream, made_ms + 25 * 3_600_000) == made_ms + 3_600_000
    site.rig.create("plain", 1, retention_ms="-1")
    assert trim_horizon_ms(site.find("plain"), 10**15) == 0


def test_expired_shards_are_not_shown(site: Site) -> None:
    stream = site.make()
    site.split(stream, 0)
    now_ms = site.rig.clock.now_ms() + 25 * 3_600_000
    assert [shard.index for shard in shown_shards(stream, now_ms)] == [1, 2]
