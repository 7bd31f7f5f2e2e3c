from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.moments import NotATime, iso, moment_ms, span_ms

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MINUTE = 60_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 5 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2h30m", 150 * MINUTE),
        ("7d", 7 * 24 * 60 * MINUTE),
        ("1w", 7 * 24 * 60 * MINUTE),
        ("P1D", 24 * 60 * MINUTE),
        ("PT1H30M", 90 * MINUTE),
        ("P1DT6H", 30 * 60 * MINUTE),
        ("PT0.5S", 500),
    ],
)
def test_spans_of_time(text: str, expected: int) -> None:
    assert span_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "5x", "5m!", "P", "PT", "-5m", "m5", "latest"])
def test_what_is_not_a_span(text: str) -> None:
    assert span_ms(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01", NOW),
        ("2026-01-01T00:05", NOW + 5 * MINUTE),
        ("2026-01-01 00:05:00", NOW + 5 * MINUTE),
        ("2026-01-01T00:05:00Z", NOW + 5 * MINUTE),
        ("2026-01-01T02:05:00+02:00", NOW + 5 * MINUTE),
        ("2026-01-01T00:00:00.123Z", NOW + 123),
        ("20251231T23:59", None),
        ("@1767225600000", NOW),
        ("@1767225600", NOW),
        ("@0", 0),
        ("@2026-01-01", NOW),
        ("5m", NOW - 5 * MINUTE),
        ("-5m", NOW - 5 * MINUTE),
        ("@5m", NOW - 5 * MINUTE),
        ("@-5m", NOW - 5 * MINUTE),
        ("now", NOW),
        ("9999w", 0),
        ("1960-01-01", 0),
        ("1767225600000", None),
        ("latest", None),
        ("", None),
    ],
)
def test_points_in_time(text: str, expected: int | None) -> None:
    assert moment_ms(text, NOW) == expected


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "2026-01-01T25:00", "@yesterday", "@", "2026-01-01X"])
def test_what_looks_like_a_time_and_is_none_says_so(text: str) -> None:
    with pytest.raises(NotATime):
        moment_ms(text, NOW)


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9000, 1, 1)))
def test_printed_times_can_be_read_back(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    printed = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    ms = moment_ms(printed, NOW)
    assert ms is not None
    assert iso(ms) == printed


def test_a_time_beyond_the_calendar_is_printed_as_its_number() -> None:
    assert iso(2**62) == str(2**62)


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        moment_ms(text, NOW)
    except NotATime:
        pass
