"""The pictures of docs/tour.md: the console in front of what `headrace demo` shows, step by step.

They go to the folder that HEADRACE_TOUR names, to docs/images if that is the word `docs`, else to one that is thrown away:
without it the test proves that every step of the tour can be taken. A picture is 1280 × 800; those of the docs have at most
MOST_BYTES. The last one needs Spark: `test_pipeline_watch` takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.console.busy import DEAD, GROUP, TOPIC, WEBHOOK, until
from tests.console.opened import CHROMIUM, a_page
from tests.console.tour_pictures import HEIGHT, IMAGES, OF_A_PIPELINE, WIDTH, take, wanted_folder

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(300),
]

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES, MOST_PICTURES = 120_000, 9
PAINT_MS, CHART_MS = 1500, 16_000
HEADING = "[role=heading][aria-level='1']"


def rows(page: Any) -> bool:
    return bool(page.locator("tbody tr").count())


def says(*words: str) -> Callable[[Any], bool]:
    return lambda page: all(word in page.inner_text("body") for word in words)


@dataclass(frozen=True, slots=True)
class Step:
    picture: str
    path: str
    shown: Callable[[Any], bool]  # before the picture is taken
    click: str = ""  # the text of what is clicked on first
    chart: bool = False  # one that should have some length in the docs


STEPS = (
    Step("overview", "/", says("Takes writes", "Kafka", "AMQP", "Kinesis"), chart=True),
    Step("messages", f"/topics/{TOPIC}?tab=messages", rows),
    Step("record", f"/topics/{TOPIC}?tab=messages&record=0:0", says("AMQP 0-9-1", "payload_bytes"), "Through every protocol"),
    Step("group", f"/groups/{GROUP}", says(TOPIC), chart=True),
    Step("graph", "/graph", lambda page: page.locator(".nicegui-echart svg").count() > 0),
    Step("dead-letters", "/dead-letters", says(DEAD)),
    Step("webhook", f"/routes/{WEBHOOK}", says("Attempts", "delivered"), chart=True),
    Step("streams", "/streams", says("demo.clicks")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wanted_folder() or tmp_path_factory.mktemp("tour")


def test_every_step_of_the_tour_can_be_taken_and_pictured(busy_server: HeadraceServer, browser: Any, folder: Path) -> None:
    with a_page(browser, busy_server, WIDTH) as page:
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        for step in STEPS:
            page.goto(step.path)
            page.wait_for_selector(HEADING)
            if step.click:
                page.get_by_text(step.click, exact=True).click()
            until(page, lambda: step.shown(page), f"the content of {step.path}")  # noqa: B023
            page.wait_for_timeout(CHART_MS if step.chart and folder == IMAGES else PAINT_MS)  # what moves into its place
            take(page, folder, step.picture)


def test_the_tour_shows_these_pictures_and_no_others() -> None:
    text = (DOCS / "tour.md").read_text()
    pictured = re.findall(r"!\[[^\]]+\]\(images/tour-([a-z-]+)\.png\)", text)
    assert pictured == [*(step.picture for step in STEPS), OF_A_PIPELINE]
    assert len(pictured) <= MOST_PICTURES
    for name in pictured:
        assert (IMAGES / f"tour-{name}.png").stat().st_size <= MOST_BYTES
