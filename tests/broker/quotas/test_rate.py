"""The windowed rate and the token bucket, against Kafka's formulas and against what a client can get through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.quotas.rate import TokenBucket, WindowedRate, Windows

KAFKA = Windows(11, 1000)  # quota.window.num and quota.window.size.seconds as they are by default


def test_a_client_that_has_just_begun_is_measured_over_all_windows_but_one() -> None:
    rate = WindowedRate(KAFKA, 500)
    rate.record(5000, 0)
    assert rate.excess_ms(0) == 0
    rate.record(1, 0)
    assert rate.excess_ms(0) == 2  # (500.1 - 500) / 500 of 10,000 ms


def test_the_wait_is_what_brings_the_rate_back_to_the_limit() -> None:
    # KIP-13's example in numbers: 10 windows of a second, 500 a second, 600 recorded in each
    rate = WindowedRate(KAFKA, 500)
    for second in range(10):
        rate.record(600, second * 1000)
    assert rate.excess_ms(10_000) == pytest.approx((600 - 500) / 500 * 10_000)


def test_a_burst_is_forgotten_when_its_window_is_out_of_sight() -> None:
    rate = WindowedRate(KAFKA, 1)
    rate.record(1000, 0)
    assert rate.excess_ms(10_999) > 0
    assert rate.excess_ms(11_000) == 0
    assert rate.total == 0


def test_what_is_taken_back_does_not_count() -> None:
    rate = WindowedRate(KAFKA, 10)
    rate.record(1000, 0)
    rate.record(-1000, 0)
    assert rate.excess_ms(0) == 0


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 3000)), max_size=200),
    st.integers(100, 2000),
)
def test_a_client_that_waits_as_told_stays_within_its_quota(requests: list[tuple[int, int]], limit: int) -> None:
    """Whatever it sends and whenever: twice the limit, one burst of the size that the windows allow, and the last request.

    Twice, because ten seconds' worth is free after each silence of eleven: a client whose single requests are larger than
    the windows allow gets 21 seconds' worth every 11 seconds, here as in Kafka."""
    rate = WindowedRate(KAFKA, limit)
    now_ms = 0.0
    sent = 0
    for size, idle_ms in requests:
        now_ms += idle_ms
        rate.record(size, now_ms)
        sent += size
        allowed = limit * (2 * now_ms / 1000 + 2 * 11) + 5000
        assert sent <= allowed
        now_ms += rate.excess_ms(now_ms)


def test_small_requests_are_held_to_the_limit() -> None:
    rate = WindowedRate(KAFKA, 1000)
    now_ms = 0.0
    for _ in range(2000):
        rate.record(100, now_ms)
        now_ms += rate.excess_ms(now_ms)
    assert 1000 * (now_ms / 1000 + 11) + 100 >= 200_000


def test_there_are_never_more_samples_than_windows_and_one() -> None:
    rate = WindowedRate(Windows(3, 10), 1)
    for now_ms in range(1000):
        rate.record(1, now_ms)
    assert rate.total <= 4 * 10


def test_a_bucket_starts_full_may_be_overdrawn_once_and_fills_with_time() -> None:
    # KIP-599's example: 5 a second, 100 windows of a second, a burst of 560
    bucket = TokenBucket(Windows(100, 1000), 5, 0)
    assert bucket.excess_ms(0) == 0
    bucket.record(560, 0)
    assert bucket.excess_ms(0) == 12_000
    assert bucket.excess_ms(11_000) == 1000
    assert bucket.excess_ms(12_000) == 0
    bucket.record(0, 10**9)
    bucket.record(500, 10**9)
    assert bucket.excess_ms(10**9) == 0
