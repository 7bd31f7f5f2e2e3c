import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.positions import EARLIEST, LATEST, Anchor, NotAPosition, Position, parse_position

NOW = 1_767_225_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("Beginning", EARLIEST),
        ("start", EARLIEST),
        ("latest", LATEST),
        ("end", LATEST),
        ("0", Position(Anchor.OFFSET, 0)),
        ("1767225600000", Position(Anchor.OFFSET, 1767225600000)),
        ("-10", Position(Anchor.END, -10)),
        ("+10", Position(Anchor.START, 10)),
        ("-5m", Position(Anchor.TIME, NOW - 300_000)),
        ("5m", Position(Anchor.TIME, NOW - 300_000)),
        ("2026-01-01", Position(Anchor.TIME, NOW)),
        ("@1767225600000", Position(Anchor.TIME, NOW)),
    ],
)
def test_positions_as_people_type_them(text: str, expected: Position) -> None:
    assert parse_position(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "-", "--5", "+-5", "5x", "soon", "9" * 30, "2026-99-01", "٣"])
def test_what_is_not_a_position_says_what_is(text: str) -> None:
    with pytest.raises(NotAPosition):
        parse_position(text, NOW)


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_position(text, NOW)
    except NotAPosition:
        pass
