"""Deadlines that are pushed back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.countdown import Countdown
from headrace.testing.clock import SimulatedClock


def test_a_countdown_runs_out_once():
    clock, reached = SimulatedClock(), []
    countdown = Countdown(clock, lambda: reached.append(clock.monotonic()))
    countdown.restart(5_000)
    clock.advance(100)
    assert reached == [5.0]


def test_a_stopped_countdown_never_runs_out():
    clock, reached = SimulatedClock(), []
    countdown = Countdown(clock, lambda: reached.append(1))
    countdown.restart(5_000)
    countdown.stop()
    clock.advance(100)
    assert reached == []
    assert not countdown.running


@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 9_000)), max_size=30))
def test_the_last_restart_counts(steps):
    """Against the simplest model: the deadline is what the last restart said."""
    clock, reached, expected = SimulatedClock(), [], []
    countdown = Countdown(clock, lambda: reached.append(round(clock.monotonic() * 1000)))
    deadline, now = None, 0
    for delay_ms, wait_ms in steps:
        countdown.restart(delay_ms)
        deadline = now + delay_ms
        clock.advance(wait_ms / 1000)
        now += wait_ms
        if deadline <= now:
            expected.append(deadline)
            deadline = None
    assert len(reached) == len(expected)
    assert all(abs(a - b) <= 2 for a, b in zip(reached, expected, strict=True))
