"""The dashboard's picture: well-formed, bounded, with the right bars."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from xml.etree import ElementTree

from headrace.spark.pipelines.banking.picture import MINUTES, Picture, picture

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(panel, minutes, name, payments, volume):
    start = NOON + timedelta(minutes=minutes)
    size = timedelta(minutes=5 if panel == "five minutes" else 1)
    cells = {"panel": panel, "start": start, "end": start + size, "name": name, "currency": "EUR"}
    return {**cells, "payments": payments, "volume": Decimal(volume)}


def drawn(page):
    """SVG is XML."""
    return [
        ElementTree.fromstring(part + "</svg>")
        for part in page.replace("<svg", "\0<svg").split("\0")[1:]
        for part in [part.split("</svg>")[0]]
    ]


def test_bars_are_as_high_as_the_volume_and_merchants_in_their_order():
    rows = [
        row("minute", 0, "food", 1, "10.00"),
        row("minute", 1, "food", 2, "40.00"),
        row("minute", 1, "fun & games", 1, "40.00"),
    ]
    rows += [
        row("five minutes", -3, "Small", 1, "10.00"),
        row("five minutes", -3, "Large", 2, "80.00"),
        row("late", 1, "late", 7, "1.00"),
    ]
    page = picture(rows)
    bars, top = drawn(page)
    heights = [float(bar.get("height")) for bar in bars.iter("rect")]
    assert heights == [32.0, 128.0, 128.0]
    assert [text.text for text in top.iter("text")] == ["Large", "80.00 EUR in 2", "Small", "10.00 EUR in 1"]
    assert "4 card payments in the last hour, 7 booked late" in page
    assert "fun &amp; games" in page


def test_nothing_yet_is_a_page_as_well():
    assert "0 card payments" in picture([])


def test_only_the_last_hour_is_remembered_and_greater_counts_win(tmp_path):
    one = Picture(str(tmp_path / "page.html"))
    for minute in range(3 * MINUTES):
        one.add([row("minute", minute, "food", 2, "2.00"), row("minute", minute, "food", 1, "1.00")])
    one.draw()
    page = (tmp_path / "page.html").read_text()
    assert f"{2 * (MINUTES + 1)} card payments" in page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
