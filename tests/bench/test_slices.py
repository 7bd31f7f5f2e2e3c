"""A load in slices, with something and without it."""

from __future__ import annotations

import random
import threading
from array import array
from pathlib import Path

import pytest
from bench.slices import Side, Slices, pooled, ratio, slices

from bench import slices as slices_file


def test_each_answer_counts_for_the_slice_in_which_its_request_began(tmp_path: Path) -> None:
    running = Slices.__new__(Slices)
    running._begun = [(1_000, 2_000, False, 0.5), (3_000, 4_000, True, 0.25), (5_000, 6_000, False, 0.5)]
    answers = tmp_path / "answers"
    written = [(900, 1), (1_000, 10), (1_999, 2_000), (2_000, 3), (3_500, 40), (5_001, 30), (6_000, 5)]
    answers.write_bytes(array("Q", [number for each in written for number in each]).tobytes())
    found = running.each(answers)
    assert [each.latencies_ns for _, each in found] == [[10, 2_000], [40], [30]]
    without, with_it = pooled(found, False), pooled(found, True)
    assert without.latencies_ns == [10, 2_000, 30]
    assert with_it.latencies_ns == [40]
    assert (without.seconds, with_it.seconds) == pytest.approx((2e-6, 1e-6))
    assert without.us(0.5) == 0.03
    assert without.cpu_us == pytest.approx(1e6 / 3)


def test_a_ratio_is_the_median_of_neighbours() -> None:
    found = [(number % 2 == 1, Side(1.0, 0.0, [took])) for number, took in enumerate([10, 20, 10, 9000, 10, 20, 8000, 20])]
    compared = ratio(found, lambda side: side.us(0.99))
    assert compared.median == 2.0
    assert compared.least <= 2.0 < compared.most


def test_bounds_of_a_ratio_are_closer_the_more_slices_there_are() -> None:
    noise = random.Random(1)

    def width(slices: int) -> float:
        found = [(number % 2 == 1, Side(1.0, 0.0, [noise.randrange(900, 1100)])) for number in range(slices)]
        compared = ratio(found, lambda side: side.us(0.99))
        assert compared.least < 1.0 < compared.most
        return compared.most - compared.least

    assert width(1000) < width(20) / 2


def test_slices_without_answers_are_left_out() -> None:
    found = [(False, Side(1.0, 0.0, [10])), (True, Side(1.0)), (False, Side(1.0, 0.0, [10])), (True, Side(1.0, 0.0, [30]))]
    assert ratio(found, lambda side: side.us(0.99)).median == 3.0


def test_it_is_switched_on_and_off_until_the_load_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_file, "SLICE_S", 0.002)
    monkeypatch.setattr(slices_file, "SETTLE_ON_S", 0.001)
    monkeypatch.setattr(slices_file, "SETTLE_OFF_S", 0.001)
    switched: list[bool] = []
    often = threading.Event()

    def switch(on: bool) -> None:
        switched.append(on)
        if len(switched) == 6:
            often.set()

    with slices(switch, lambda: 0.0) as running:
        assert often.wait(30)
    assert switched[:4] == [False, True, False, True]
    assert running.on_seconds > 0
