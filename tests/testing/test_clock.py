"""The clock that moves only when told."""

from __future__ import annotations

from headrace.testing.clock import START_MS, SimulatedClock


def test_time_stands_still_until_it_is_told_to_move():
    clock = SimulatedClock()
    assert (clock.now_ms(), clock.monotonic()) == (START_MS, 0.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (START_MS + 1500, 1.5)


def test_timers_run_in_order_and_see_the_time_they_were_set_for():
    clock, seen = SimulatedClock(), []
    for delay in (3, 1, 2):
        clock.call_later(delay, lambda: seen.append(clock.monotonic()))
    clock.advance(2.5)
    assert seen == [1, 2]
    assert clock.next_due_s == 0.5


def test_timers_of_the_same_moment_run_in_the_order_they_were_set():
    clock, seen = SimulatedClock(), []
    for name in "abc":
        clock.call_later(1, lambda name=name: seen.append(name))
    clock.advance(1)
    assert seen == ["a", "b", "c"]


def test_a_timer_set_by_a_timer_runs_within_the_same_span():
    clock, seen = SimulatedClock(), []

    def again() -> None:
        seen.append(clock.monotonic())
        clock.call_later(1, again)

    clock.call_later(1, again)
    clock.advance(3.5)
    assert seen == [1, 2, 3]


def test_a_cancelled_timer_never_runs():
    clock, seen = SimulatedClock(), []
    clock.call_later(1, lambda: seen.append(1)).cancel()
    clock.advance(5)
    assert seen == []
    assert clock.next_due_s is None
