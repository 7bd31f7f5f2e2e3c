"""The window of a share partition, rule by rule. What holds for any sequence of steps is in test_window_machine."""

from __future__ import annotations

import pytest

from headrace.broker.groups.share.runs import (
    Acknowledgement,
    AckType,
    Acquired,
    Cause,
    Extent,
    InvalidRecordState,
    Limits,
    PastAcquired,
    RecordState,
    Run,
)
from headrace.broker.groups.share.window import Window

LIMITS = Limits(delivery_count=5, record_locks=100, dead_letters=False)
DEAD = Limits(delivery_count=5, record_locks=100, dead_letters=True)


def ack(first: int, last: int, *types: AckType) -> Acknowledgement:
    return Acknowledgement(first, last, types)


def taken(window: Window, member: str = "a", extents=((0, 9),), records: int = 100, limits=LIMITS, until=30.0, strict=False):
    spans = [Extent(*extent) for extent in extents]
    return [
        (piece.first, piece.last, piece.count) for piece in window.acquire(member, spans, records, limits, until, strict=strict)
    ]


def states(window: Window) -> list[tuple[int, int, str, int]]:
    return [(run.first, run.last, run.state.name, run.count) for run in window.runs]


def test_new_batches_are_taken_whole_however_few_records_were_asked_for():
    window = Window(0)
    assert taken(window, extents=[(0, 9), (10, 19), (20, 29)], records=11) == [(0, 19, 1)]
    assert window.end == 20


def test_in_record_limit_mode_exactly_as_many_records_are_taken_as_asked():
    window = Window(0)
    assert taken(window, extents=[(0, 9), (10, 19)], records=11, strict=True) == [(0, 10, 1)]
    assert taken(window, "b", extents=[(10, 19)], records=3, strict=True) == [(11, 13, 1)]


def test_what_one_member_holds_another_does_not_get():
    window = Window(0)
    taken(window, "a")
    assert taken(window, "b") == []


def test_what_is_accepted_in_order_leaves_nothing_behind():
    window = Window(0)
    taken(window)
    window.acknowledge("a", [ack(0, 9, AckType.ACCEPT)], LIMITS, 0)
    assert (window.start, window.end, list(window.runs)) == (10, 10, [])


def test_the_start_waits_for_the_first_record_that_is_not_done():
    window = Window(0)
    taken(window)
    window.acknowledge("a", [ack(1, 9, AckType.ACCEPT)], LIMITS, 0)
    assert window.start == 0
    assert window.done_from(0) == 9
    assert window.done_from(7) == 3
    window.acknowledge("a", [ack(0, 0, AckType.ACCEPT)], LIMITS, 0)
    assert window.start == 10


def test_types_for_each_offset_are_told_apart():
    window = Window(0)
    taken(window, extents=[(0, 4)])
    each = (AckType.ACCEPT, AckType.RELEASE, AckType.RELEASE, AckType.REJECT, AckType.GAP)
    window.acknowledge("a", [ack(0, 4, *each)], DEAD, 0)
    assert states(window) == [(1, 2, "AVAILABLE", 1), (3, 3, "ARCHIVING", 1), (4, 4, "ARCHIVED", 1)]


def test_a_released_record_is_delivered_again_and_counts():
    window = Window(0)
    taken(window)
    window.acknowledge("a", [ack(3, 5, AckType.RELEASE)], LIMITS, 0)
    assert taken(window, "b") == [(3, 5, 2)]


def test_a_record_is_given_up_when_it_is_released_after_its_last_delivery():
    limits = Limits(delivery_count=2, record_locks=100, dead_letters=True)
    window = Window(0)
    for count in (1, 2):
        assert taken(window, extents=[(0, 0)], limits=limits) == [(0, 0, count)]
        window.acknowledge("a", [ack(0, 0, AckType.RELEASE)], limits, 0)
    assert states(window) == [(0, 0, "ARCHIVING", 2)]
    assert next(window.waiting_for_copy()).cause is Cause.DELIVERED_TOO_OFTEN
    window.archived(0, 0)
    assert window.start == 1


def test_without_a_dead_letter_topic_a_rejected_record_is_done_at_once():
    window = Window(0)
    taken(window)
    window.acknowledge("a", [ack(0, 9, AckType.REJECT)], LIMITS, 0)
    assert window.start == 10


def test_locks_run_out_each_at_its_time_and_renewing_moves_them():
    window = Window(0)
    taken(window, until=10.0)
    window.acknowledge("a", [ack(4, 6, AckType.RENEW)], LIMITS, 20.0)
    assert window.next_deadline() == 10.0
    assert window.expire(10.0, LIMITS)
    assert states(window) == [(0, 3, "AVAILABLE", 1), (4, 6, "ACQUIRED", 1), (7, 9, "AVAILABLE", 1)]
    assert window.next_deadline() == 20.0
    assert not window.expire(19.9, LIMITS)


def test_a_member_that_is_gone_leaves_what_it_held_to_the_others():
    window = Window(0)
    taken(window, "a")
    taken(window, "b", extents=[(10, 19)])
    assert window.release("a", LIMITS)
    assert not window.release("a", LIMITS)
    assert states(window) == [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]


@pytest.mark.parametrize(
    ("acks", "error"),
    [
        ([ack(0, 10, AckType.ACCEPT)], PastAcquired),
        ([ack(10, 10, AckType.ACCEPT)], PastAcquired),
        ([ack(0, 3, AckType.ACCEPT), ack(5, 5, AckType.ACCEPT)], InvalidRecordState),
    ],
)
def test_an_acknowledgement_that_is_wrong_anywhere_changes_nothing(acks, error):
    window = Window(0)
    taken(window)
    window.acknowledge("a", [ack(5, 5, AckType.RELEASE)], LIMITS, 0)
    before = states(window)
    with pytest.raises(error):
        window.acknowledge("a", acks, LIMITS, 0)
    assert states(window) == before


def test_only_the_owner_may_acknowledge():
    window = Window(0)
    taken(window, "a")
    with pytest.raises(InvalidRecordState):
        window.acknowledge("b", [ack(0, 9, AckType.ACCEPT)], LIMITS, 0)


def test_what_retention_has_deleted_is_neither_waited_for_nor_asked_after():
    window = Window(0)
    taken(window)
    assert window.begin_at(5)
    assert (window.start, window.end) == (5, 10)
    window.acknowledge("a", [ack(0, 9, AckType.ACCEPT)], LIMITS, 0)
    assert window.start == 10
    assert window.begin_at(50)
    assert (window.start, window.end, window.size) == (50, 50, 0)
    assert not window.begin_at(20)


def test_no_more_is_in_flight_than_allowed_but_what_was_released_can_always_be_had():
    limits = Limits(delivery_count=5, record_locks=20, dead_letters=False)
    window = Window(0)
    taken(window, extents=[(0, 9), (10, 19), (20, 29)], limits=limits)
    assert window.end == 20
    assert window.next_offset(limits) is None
    window.acknowledge("a", [ack(15, 15, AckType.RELEASE)], limits, 0)
    assert window.next_offset(limits) == 15
    assert taken(window, "b", extents=[(10, 19), (20, 29)], limits=limits) == [(15, 15, 2)]


def test_markers_and_offsets_that_were_compacted_away_are_never_delivered():
    window = Window(0)
    assert taken(window, extents=[(0, 1), (2, 2, False), (5, 7)]) == [(0, 1, 1), (5, 7, 1)]
    window.acknowledge("a", [ack(0, 1, AckType.ACCEPT)], LIMITS, 0)
    assert window.start == 5


def test_what_was_delivered_often_comes_with_fewer_others_and_alone_at_last():
    window = Window(0, [Run(0, 63, RecordState.AVAILABLE, count=3)])
    assert taken(window, extents=[(0, 63)]) == [(0, 31, 4)]
    window.acknowledge("a", [ack(0, 31, AckType.RELEASE)], LIMITS, 0)
    assert taken(window, extents=[(0, 63)]) == [(0, 0, 5)]
    assert taken(window, "b", extents=[(0, 63)]) == [(1, 1, 5)]


def test_a_record_at_its_last_attempts_is_not_mixed_with_others():
    window = Window(0, [Run(0, 0, RecordState.AVAILABLE, count=1), Run(1, 1, RecordState.AVAILABLE, count=4)])
    assert taken(window, extents=[(0, 9)]) == [(0, 0, 2)]
    assert taken(window, extents=[(0, 9)]) == [(1, 1, 5)]
    assert taken(window, extents=[(0, 9)]) == [(2, 9, 1)]


def test_rows_that_leave_offsets_out_mean_that_these_are_available():
    window = Window(3, [Run(5, 6, RecordState.ACKNOWLEDGED, 1), Run(0, 2, RecordState.ACKNOWLEDGED, 1)])
    assert states(window) == [(3, 4, "AVAILABLE", 0), (5, 6, "ACKNOWLEDGED", 1)]


def test_a_million_records_accepted_in_order_never_take_more_than_a_few_runs():
    window = Window(0)
    limits = Limits(5, 2000, dead_letters=False)
    for base in range(0, 1_000_000, 500):
        assert window.acquire("a", [Extent(base, base + 499)], 500, limits, 1.0) == [Acquired(base, base + 499, 1)]
        window.acknowledge("a", [ack(base, base + 499, AckType.ACCEPT)], limits, 0)
        assert len(window.runs) == 0
    assert window.start == 1_000_000
