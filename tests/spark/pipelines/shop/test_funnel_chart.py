"""The picture of the funnel: what the rows say is what it shows."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from headrace.spark.pipelines.shop.funnel_chart import chart

STEPS = ("entered", "product", "cart", "checkout", "paid")


def window(began, *visitors):
    return [
        {"began": began, "ended": began + timedelta(hours=1), "place": place, "step": step, "visitors": count}
        | {"of_entered": count / visitors[0]}
        for place, (step, count) in enumerate(zip(STEPS, visitors, strict=True), start=1)
    ]


def svgs(page):
    parts = page.split("<svg")[1:]
    return [ElementTree.fromstring("<svg" + part.split("</svg>")[0] + "</svg>") for part in parts]


def test_the_newest_window_is_the_funnel_and_every_window_a_point():
    began = datetime(2026, 3, 2, 9, tzinfo=UTC)
    rows = [*window(began + timedelta(hours=1), 80, 40, 20, 10, 4), *window(began, 10, 5, 5, 1, 1)]
    funnel, history = svgs(chart(rows))
    widths = [float(one.get("width")) for one in funnel.iter("rect")]
    assert widths == [680.0, 340.0, 170.0, 85.0, 34.0]
    assert [one.text for one in funnel.iter("text")][1::2] == [
        "80 (100.0%)",
        "40 (50.0%)",
        "20 (25.0%)",
        "10 (12.5%)",
        "4 (5.0%)",
    ]
    assert [one.find("title").text for one in history.iter("circle")] == ["02.03. 09:00 10.0%", "02.03. 10:00 5.0%"]


def test_without_rows_it_says_so():
    assert "No window is complete yet." in chart([])
