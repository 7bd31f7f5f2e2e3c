"""The pages of pipelines in a real browser: what they show of what pipelines publish, and how that is found again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.console.axe import script
from tests.console.opened import CHROMIUM, a_page, wait_for_address, with_console
from tests.console.places import opened, picture_folder
from tests.console.test_accessibility import looked_at
from tests.http.v1.asking import V1

from headrace.testing import HeadraceServer

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytest.importorskip("nicegui", reason="NiceGUI is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}"),
    pytest.mark.timeout(240),
]
HOSTILE = "<img src=x onerror=alert(1)>"
PROGRESS, LOG = "headrace.pipelines", "headrace.pipelines.log"


@pytest.fixture(scope="module")
def server() -> Iterator[HeadraceServer]:
    with with_console(**{"num.partitions": 1}) as started:
        yield started


@pytest.fixture
def page(browser: Any, server: HeadraceServer) -> Iterator[Any]:
    with a_page(browser, server) as shown:
        yield shown


@pytest.fixture
def name() -> str:
    return f"n{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture_folder(tmp_path_factory)


def publish(v1: V1, topic: str, *events: tuple[str, object]) -> None:
    body = json.dumps({"events": [{"key": key, "value": value} for key, value in events]}).encode()
    answer = v1.ask("POST", f"/v1/topics/{topic}/events", raw=body, headers={"content-type": "application/json"})
    assert answer.status == 200, answer


def at(number: int = 0) -> str:
    return (datetime(2026, 3, 1, 9, 30, tzinfo=UTC) + timedelta(seconds=number)).isoformat().replace("+00:00", "Z")


def seen(number: int = 0) -> str:
    """The same as a page shows it."""
    return at(number).replace("T", " ").removesuffix("Z")


def batch(number: int, **given: object) -> dict[str, object]:
    return {
        "query": "alerts", "state": "running", "at": at(number), "batch": number, "batch_ms": 120, "rows_total": 4321,
        "rows_per_s": 140.0 + number, "lag": 33, "state_rows": 12, "state_bytes": 4096, "late_rows": 2, "error": None,
        "watermark": at(-60), "sources": [{"name": "bank.transactions", "rows": 5, "lag": 3}], **given,
    }  # fmt: skip


def about(state: str, **given: object) -> dict[str, object]:
    return {"state": state, "at": at(), "started": at(-9), "error": None, "host": "h", "pid": 7, "log": "/x/spark.log", **given}


def entry(pipeline: str, text: str, level: str = "INFO", query: str = "") -> tuple[str, object]:
    return pipeline, {"pipeline": pipeline, "query": query, "level": level, "at": at(), "logger": "L", "text": text}


def cells(row: Any) -> list[str]:
    return [text.strip() for text in row.locator("td").all_inner_texts()]


def test_without_pipelines_the_page_says_what_to_do(browser: Any) -> None:
    with with_console() as fresh, a_page(browser, fresh) as page:
        page.goto("/pipelines")
        page.get_by_text("No pipeline has published anything").wait_for()
        page.get_by_text("headrace pipeline run banking.fraud --feed", exact=False).wait_for()
        page.get_by_text("apt install openjdk-17-jre-headless", exact=False).wait_for()


def test_a_pipeline_is_listed_opened_and_followed(page: Any, v1: V1, name: str, pictures: Path) -> None:
    publish(v1, PROGRESS, (name, about("running", summary="Finds fraud.")), (f"{name}/alerts", batch(7)))
    odd = {"state": HOSTILE, "batch": HOSTILE, "at": [HOSTILE], "sources": HOSTILE}
    publish(v1, PROGRESS, (HOSTILE, "no object"), (f"{HOSTILE}/{HOSTILE}", odd))
    page.goto("/pipelines")
    row = page.locator("tbody tr", has_text=name)
    row.wait_for()
    assert cells(row) == [name, "running", seen(-9), "147/s", "33", "1", ""]
    row.get_by_role("link", name=name).click()
    page.wait_for_url(f"**/pipelines/{name}")
    page.get_by_text("Finds fraud.").wait_for()
    page.get_by_text("alerts reads bank.transactions: 5 rows in the last batch, 3 behind").wait_for()
    query = page.locator("tbody tr", has_text="alerts")
    assert cells(query) == [
        "alerts", "running", "147/s", "33", "7", "120 ms", "4,321", "12 rows, 4.1 KB", "2", seen(-60), seen(7),
    ]  # fmt: skip
    publish(v1, PROGRESS, (f"{name}/alerts", batch(8, lag=0)))
    page.get_by_role("cell", name="148/s").wait_for()
    for title in ("Rows in a second", "Records behind the topic", "Rows kept in state", "Size of the state"):
        page.get_by_role("img", name=title).locator("svg").first.wait_for()
    page.screenshot(path=pictures / "pipeline-progress.png")


def test_a_query_that_failed_shows_why_and_since_when(page: Any, v1: V1, name: str) -> None:
    publish(v1, PROGRESS, (f"{name}/alerts", batch(7)), (name, about("failed", at=at(5), error=f"ValueError: {HOSTILE}")))
    page.goto(f"/pipelines/{name}")
    alert = page.get_by_role("alert")
    alert.get_by_text(f"ValueError: {HOSTILE}").wait_for()
    page.get_by_text(f"since {seen(5)} UTC").wait_for()
    assert cells(page.locator("tbody tr", has_text="alerts"))[1] == "failed"
    page.goto("/pipelines")
    row = page.locator("tbody tr", has_text=name)
    row.wait_for()
    assert cells(row)[1:3] == ["failed", seen(5)]
    assert HOSTILE in cells(row)[-1]


def test_a_machine_without_java_is_told_what_it_needs(page: Any, v1: V1, name: str) -> None:
    words = "Pipelines need Java 17 or newer: no java was found. Debian and Ubuntu: apt install openjdk-17-jre-headless."
    publish(v1, PROGRESS, (name, {"pipeline": name, "state": "unavailable", "at": at(), "error": words}))
    page.goto(f"/pipelines/{name}")
    page.get_by_role("alert").get_by_text("It can't run here").wait_for()
    page.get_by_role("alert").get_by_text(words).wait_for()


def test_a_run_that_was_killed_is_silent(page: Any, server: HeadraceServer, v1: V1, name: str) -> None:
    from headrace.client.kafka import Cluster, Producer
    from headrace.record.event import Event

    publish(v1, PROGRESS, ("another", about("running")))
    cluster = Cluster(server.kafka)
    long_ago_ms = int(datetime.now(UTC).timestamp() * 1000) - 60_000
    producer = Producer(cluster, now_ms=lambda: long_ago_ms)
    producer.send(PROGRESS, Event(name.encode(), json.dumps(about("running")).encode()))
    producer.flush()
    cluster.close()
    page.goto(f"/pipelines/{name}")
    page.get_by_text("silent", exact=True).wait_for()
    page.get_by_text("No word since", exact=False).wait_for()


def test_results_are_drawn_and_listed_as_the_pipeline_describes_them(page: Any, v1: V1, name: str, pictures: Path) -> None:
    shows = [
        {
            "topic": f"{name}.sums", "title": "Sums", "sort": "-sum",
            "key": ["minute", "who"], "columns": ["minute", "who", "sum"],
            "plots": [
                {"title": "Sum each minute", "kind": "bars", "x": "minute", "y": "sum", "series": "who"},
                {"title": "Greatest", "kind": "ranking", "x": "who", "y": "sum", "unit": "EUR"},
            ],
        },
        {"topic": f"{name}.other", "title": "Others", "plots": []},
    ]  # fmt: skip
    rows = [{"minute": at(60 * (number // 10)), "who": f"w{number % 10}", "sum": str(number)} for number in range(60)]
    publish(v1, f"{name}.sums", *(("same", row) for row in rows), ("same", {"minute": at(), "who": HOSTILE, "sum": 1000}))
    publish(v1, f"{name}.other", ("k", {"word": "hello"}))
    publish(v1, PROGRESS, (name, about("running", shows=shows)))
    page.goto(f"/pipelines/{name}")
    page.get_by_role("tab", name="Results").click()
    page.get_by_text("61 rows of the newest of 61 records").wait_for()
    first = page.locator("tbody tr").first
    assert cells(first) == [at(), HOSTILE, "1000"]
    for title in ("Sum each minute", "Greatest"):
        page.get_by_role("img", name=title).locator("svg").first.wait_for()
    page.get_by_role("img", name="Greatest").hover(position={"x": 300, "y": 42})  # the greatest has the hostile name
    page.get_by_text("1,000", exact=True).first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    page.screenshot(path=pictures / "pipeline-results.png")

    page.get_by_role("button", name="Rows after").click()
    page.get_by_text("26 to 50").wait_for()
    wait_for_address(page, "page=2")
    page.reload()
    page.get_by_text("26 to 50").wait_for()
    publish(v1, f"{name}.sums", ("same", {"minute": at(999), "who": "live", "sum": 2000}))
    page.get_by_text("62 rows of the newest of 62 records").wait_for()
    page.get_by_label("Contains").fill("live")
    page.get_by_role("cell", name="live", exact=True).wait_for()
    assert page.locator("tbody tr").count() == 1

    page.get_by_role("button", name="Others").click()
    page.get_by_role("cell", name="hello").wait_for()
    wait_for_address(page, f"result={name}.other")


def test_any_topic_can_be_a_table(page: Any, v1: V1, name: str) -> None:
    publish(v1, name, ("a1", {"account": "a1", "balance": "1"}), ("a1", {"account": "a1", "balance": HOSTILE}))
    page.goto(f"/pipelines?table={name}")
    page.get_by_text("1 rows of the newest of 2 records").wait_for()
    page.get_by_label(name).get_by_role("cell", name=HOSTILE).wait_for()
    page.get_by_label("Topic", exact=True).fill("nobody-wrote-this")
    page.get_by_text("The topic nobody-wrote-this has no JSON objects yet").wait_for()


def test_the_log_is_searched_and_followed_and_a_stack_trace_is_readable(page: Any, v1: V1, name: str, pictures: Path) -> None:
    trace = "\n".join(["it failed", "java.lang.IllegalStateException: no", "\tat a.b.C.d(C.scala:12)", f"\tat {HOSTILE}"])
    publish(
        v1, LOG, entry(name, "starts"), entry(name, "falls behind", "WARN", "alerts"), entry(name, trace, "ERROR", "alerts"),
        entry("another", "nothing to do with it"),
    )  # fmt: skip
    page.goto(f"/pipelines/{name}?tab=log")
    page.get_by_text("3 found in", exact=False).wait_for()
    log = page.get_by_role("log")
    assert log.get_by_text("nothing to do with it").count() == 0
    log.get_by_text("3 more lines").click()
    log.get_by_text("at a.b.C.d(C.scala:12)", exact=False).wait_for()
    assert HOSTILE in log.inner_text()
    page.screenshot(path=pictures / "pipeline-log.png")
    publish(v1, LOG, entry(name, "goes on"))
    log.get_by_text("goes on").wait_for()

    page.get_by_label("Level").click()
    page.get_by_role("option", name="WARN and above").click()
    log.get_by_text("goes on").wait_for(state="detached")
    page.get_by_label("Contains").fill("FALLS")
    log.get_by_text("it failed").wait_for(state="detached")
    log.get_by_text("falls behind").wait_for()
    wait_for_address(page, "level=WARN")
    wait_for_address(page, "text=FALLS")
    page.reload()
    page.get_by_text("1 found in", exact=False).wait_for()
    page.get_by_label("Contains").fill("nobody said this")
    log.get_by_text("No entry is like that").wait_for()


def test_a_telephone_is_wide_enough(browser: Any, server: HeadraceServer, v1: V1, name: str) -> None:
    shows = [{"topic": f"{name}.t", "title": "T", "plots": [{"title": "P", "kind": "ranking", "x": "a"}]}]
    publish(v1, PROGRESS, (name, about("failed", error="w" * 300, shows=shows)), (f"{name}/alerts", batch(1)))
    publish(v1, f"{name}.t", ("k", {"a": "w" * 300}))
    publish(v1, LOG, entry(name, "w" * 500 + "\n" + "v" * 500, "ERROR"))
    with a_page(browser, server, width=390) as page:
        for path, shown in (
            ("/pipelines", name),
            (f"/pipelines/{name}", "alerts reads"),
            (f"/pipelines/{name}?tab=results", "1 rows of"),
            (f"/pipelines/{name}?tab=log", "1 found in"),
        ):
            page.goto(path)
            page.get_by_text(shown, exact=False).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_every_tab_can_be_used_by_all(page: Any, v1: V1, name: str) -> None:
    axe = script()
    shows = [{"topic": f"{name}.t", "title": "T", "plots": [{"title": "P", "kind": "bars", "x": "a", "series": "b"}]}] * 2
    failed = about("failed", error="why", shows=shows, summary="Finds fraud.")
    publish(v1, PROGRESS, (f"{name}/alerts", batch(1)), (f"{name}/table", batch(1, error="why")), (name, failed))
    publish(v1, f"{name}.t", *((f"k{number}", {"a": number, "b": f"b{number}"}) for number in range(30)))
    publish(v1, LOG, entry(name, "one\ntwo", "ERROR", "alerts"), entry(name, "falls behind", "WARN"), entry(name, "starts"))
    found: list[str] = []
    for path in ("/pipelines", f"/pipelines/{name}", f"/pipelines/{name}?tab=results", f"/pipelines/{name}?tab=log"):
        opened(page, path)
        found += looked_at(page, axe, path)
    assert found == []
