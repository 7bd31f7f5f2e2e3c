"""The runs of delivery tags against a plain dictionary of them, for any order of deliveries and settlements."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.amqp.unacked import Delivered, Unacked

QUEUES = ["q", "r"]
step = st.one_of(
    st.tuples(st.just("deliver"), st.integers(1, 6), st.integers(0, 1)),
    st.tuples(st.just("take"), st.integers(0, 45), st.integers(0, 4)),
    st.tuples(st.just("up_to"), st.integers(0, 45), st.just(0)),
    st.tuples(st.just("put_back"), st.just(0), st.just(0)),
    st.tuples(st.just("all"), st.just(0), st.just(0)),
)


def each(deliveries: list[Delivered]) -> dict[int, tuple[object, int]]:
    return {d.first_tag + i: (d.queue, d.first_offset + i) for d in deliveries for i in range(d.messages)}


@given(st.lists(step, max_size=60))
@settings(max_examples=300, deadline=None)
def test_runs_settle_what_a_dictionary_of_tags_would(steps: list[tuple[str, int, int]]) -> None:
    unacked = Unacked()
    model: dict[int, tuple[object, int]] = {}
    next_tag, offsets = 1, [0, 100]
    taken: list[Delivered] = []
    for verb, a, b in steps:
        if verb == "deliver":
            unacked.add(Delivered(next_tag, a, None, cast(Any, QUEUES[b]), 0, offsets[b], 0.0))
            for i in range(a):
                model[next_tag + i] = (QUEUES[b], offsets[b] + i)
            next_tag, offsets[b] = next_tag + a, offsets[b] + a
        elif verb == "take":
            got, unknown = unacked.take(a, a + b)
            known = range(a, a + b + 1)
            missing = next((tag for tag in known if tag not in model), None)
            assert unknown == missing
            expected = {tag: model.pop(tag) for tag in known if missing is None or tag < missing}
            assert each(got) == expected
            taken += got
        elif verb == "up_to":
            up_to = unacked.take_up_to(a)
            if a not in model:
                assert up_to is None
            else:
                assert up_to is not None
                assert each(up_to) == {tag: model.pop(tag) for tag in sorted(model) if tag <= a}
                taken += up_to
        elif verb == "put_back":
            unacked.put_back(taken)
            model |= each(taken)
            taken = []
        else:
            assert each(unacked.take_all()) == model
            model.clear()
        assert unacked.count == len(model)
        oldest = unacked.oldest()
        assert (oldest.first_tag if oldest else None) == min(model, default=None)


def test_deliveries_that_follow_each_other_are_one_run_and_settle_as_one() -> None:
    unacked = Unacked()
    for tag in range(1, 1001):
        unacked.add(Delivered(tag, 1, None, cast(Any, "q"), 0, tag + 41, 0.0))
    taken = unacked.take_up_to(1000)
    assert taken == [Delivered(1, 1000, None, cast(Any, "q"), 0, 42, 0.0)]


def test_a_hundred_thousand_settled_one_by_one_from_behind_leave_nothing() -> None:
    unacked = Unacked()
    for tag in range(1, 100_001):
        unacked.add(Delivered(tag, 1, None, cast(Any, "q"), 0, 2 * tag, 0.0))  # each a run of its own
    for tag in range(100_000, 0, -1):
        taken, unknown = unacked.take(tag, tag)
        assert unknown is None
        assert taken[0].first_offset == 2 * tag
    assert unacked.count == 0
    assert unacked.take(1, 1) == ([], 1)
