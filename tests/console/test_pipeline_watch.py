"""A pipeline is watched: one of the gallery runs on a real Spark over live events, and a browser sees it start, read, write,
and stop."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Running
from tests.console.busy import until
from tests.console.opened import CHROMIUM, a_browser, a_page, with_console
from tests.console.places import picture_folder
from tests.console.tour_pictures import HEIGHT, OF_A_PIPELINE, WIDTH, take, wanted_folder

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytest.importorskip("pyspark", reason="PySpark is not installed")

from headrace.spark.java import SparkUnavailable, require_spark
from headrace.testing import HeadraceServer

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(400),
]
PIPELINE = "banking.balances"
PAINT_MS = 1500
PATIENCE_S = 180  # Spark takes its time on a busy machine
QUICK = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", "--conf", "spark.sql.shuffle.partitions=1")


@pytest.fixture
def server() -> Iterator[HeadraceServer]:
    try:
        require_spark()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    with with_console(**{"num.partitions": 1}) as started:
        yield started


@pytest.fixture
def running(server: HeadraceServer, tmp_path: Path) -> Iterator[Running]:
    arguments = ("pipeline", "run", PIPELINE, "--feed", "--rate", "40", "--data", str(tmp_path), "--json", *QUICK)
    made = Running(server.kafka, arguments)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.fixture
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture_folder(tmp_path_factory)


def rows_of_this_run(page: Any, query: str) -> int:
    row = page.locator("tbody tr", has=page.locator("td", has_text=re.compile(f"^{query}$")))
    cells = row.first.locator("td").all_inner_texts() if row.count() else []
    return int(cells[6].replace(",", "")) if len(cells) > 6 and cells[6][0].isdecimal() else 0


def test_a_pipeline_is_watched_from_its_start_to_its_end(server: HeadraceServer, running: Running, pictures: Path) -> None:
    with a_browser() as browser, a_page(browser, server) as page:
        page.goto("/pipelines")
        page.get_by_role("link", name=PIPELINE).click(timeout=PATIENCE_S * 1000)
        page.wait_for_url(f"**/pipelines/{PIPELINE}")
        until(page, lambda: rows_of_this_run(page, "balances") > 0, "the first rows", PATIENCE_S)
        before = rows_of_this_run(page, "balances")
        until(page, lambda: rows_of_this_run(page, "balances") > before, "more rows", PATIENCE_S)
        page.get_by_role("img", name="Rows in a second").locator("svg").first.wait_for()
        page.screenshot(path=pictures / "pipeline-live.png")

        page.get_by_role("tab", name="Results").click()
        page.get_by_role("img", name="Greatest balances").locator("svg").first.wait_for(timeout=PATIENCE_S * 1000)
        page.get_by_text("rows of the newest of", exact=False).wait_for()
        told = page.get_by_text("rows of the newest of", exact=False).inner_text()
        until(page, lambda: page.get_by_text("rows of the newest of", exact=False).inner_text() != told, "new rows", PATIENCE_S)
        page.screenshot(path=pictures / "pipeline-live-results.png")
        if tour := wanted_folder():
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            page.get_by_role("tablist").evaluate("tabs => scrollTo(0, tabs.getBoundingClientRect().top + scrollY - 64)")
            page.wait_for_timeout(PAINT_MS)
            take(page, tour, OF_A_PIPELINE)

        page.get_by_role("tab", name="Log").click()
        log = page.get_by_role("log")
        log.get_by_text(f"starts on local[*] as process {running.process.pid}").wait_for()
        log.get_by_text("the query is running").first.wait_for()

        running.end(signal.SIGTERM, PATIENCE_S)
        page.get_by_text("stopped", exact=True).first.wait_for(timeout=PATIENCE_S * 1000)
        log.get_by_text("the query is stopped").first.wait_for()
        page.goto(f"/pipelines/{PIPELINE}")
        until(page, lambda: "running" not in page.inner_text("tbody"), "every query to have stopped")
