"""Rates, with a clock that moves only when told."""

from __future__ import annotations

import pytest

from headrace.http.management import rates
from headrace.http.management.rates import KEPT_S, Rates
from headrace.testing.clock import SimulatedClock


def test_a_rate_is_what_came_since_the_question_before() -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    assert counted.counted("q", {"publish": 100}) == {"publish": 100, "publish_details": {"rate": 0.0}}
    clock.advance(5)
    assert counted.of("q", {"publish": 150}) == {"publish": 10.0}
    clock.advance(10)
    assert counted.of("q", {"publish": 350}) == {"publish": 20.0}
    assert counted.of("other", {"publish": 350}) == {"publish": 0.0}


def test_questions_one_after_another_see_the_same_rate() -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    counted.of("q", {"publish": 0})
    clock.advance(5)
    assert counted.of("q", {"publish": 50}) == {"publish": 10.0}
    clock.advance(0.5)
    assert counted.of("q", {"publish": 55}) == {"publish": 10.0}  # half a second says too little


def test_frequent_questions_leave_a_sample_only_now_and_then() -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    for second in range(20):
        found = counted.of("q", {"publish": second * 7})
        clock.advance(1)
    assert found == {"publish": 7.0}


def test_what_shrinks_has_a_negative_rate_and_old_samples_say_nothing() -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    counted.of("q", {"messages": 100})
    clock.advance(10)
    assert counted.of("q", {"messages": 50}) == {"messages": -5.0}
    clock.advance(KEPT_S + 1)
    assert counted.of("q", {"messages": 1000}) == {"messages": 0.0}


def test_who_asks_for_a_history_sees_the_samples_that_there_are() -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    counted.counted("q", {"publish": 100})
    clock.advance(10)
    details = counted.with_samples().counted("q", {"publish": 300})["publish_details"]
    assert isinstance(details, dict)
    assert (details["rate"], details["avg"], details["avg_rate"]) == (20.0, 200.0, 20.0)
    assert [sample["sample"] for sample in details["samples"]] == [300, 100]
    newest, oldest = (sample["timestamp"] for sample in details["samples"])
    assert newest - oldest == 10_000
    assert counted.counted("other", {"publish": 1})["publish_details"] == {"rate": 0.0}


def test_those_not_asked_for_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    counted = Rates(clock)
    monkeypatch.setattr(rates, "MAX_OBJECTS", 3)
    for key in "abc":
        counted.of(key, {"n": 0})
    counted.of("a", {"n": 0})
    counted.of("d", {"n": 0})  # b goes
    clock.advance(5)
    assert [counted.of(key, {"n": 5})["n"] for key in "ab"] == [1.0, 0.0]
