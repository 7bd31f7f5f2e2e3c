"""What pipelines say, as the console understands it: states, tables, plots, the log. Whatever a topic holds is harmless."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.http.v1.asking import V1

from headrace.console import pipeline_logs, pipeline_results, pipeline_states
from headrace.console.access import GUEST, Access, Server
from headrace.console.pipeline_logs import LogSearch, Wanted
from headrace.console.pipeline_plots import MOST_SERIES, MOST_X, OTHERS, Drawing, Line, Plot, drawn, history, shown_of
from headrace.console.pipeline_results import PAGE, LiveTable, cell, member
from headrace.console.pipeline_states import SILENT_S, PipelineState, Progress, QueryState, in_turn
from headrace.testing import HeadraceServer

NOW_MS = 1_800_000_000_000.0


@pytest.fixture
def v1(headrace_shared_server: HeadraceServer) -> V1:
    return V1(headrace_shared_server)


@pytest.fixture
def name() -> str:
    return f"p{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(v1: V1, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """With one partition; pipelines are thought to write to it."""
    assert v1.ask("POST", "/v1/topics", {"name": name, "partitions": 1}).status == 201
    monkeypatch.setattr(pipeline_states, "TOPIC", name)
    monkeypatch.setattr(pipeline_logs, "TOPIC", name)
    return name


def with_access(server: HeadraceServer, work: Callable[[Access], Awaitable[None]]) -> None:
    async def run() -> None:
        asked = Server(server.http)
        try:
            await work(asked.access(GUEST))
        finally:
            await asked.close()

    asyncio.run(run())


def publish(v1: V1, topic: str, *events: tuple[str | None, object]) -> None:
    body = json.dumps({"events": [{"key": key, "value": value} for key, value in events]}).encode()
    answer = v1.ask("POST", f"/v1/topics/{topic}/events", raw=body, headers={"content-type": "application/json"})
    assert answer.status == 200, answer


def plot(**given: Any) -> Plot:
    (shown,) = shown_of([{"topic": "t", "plots": [{"title": "T", "kind": "bars", "x": "x", **given}]}])
    return shown.plots[0]


# States


def test_a_run_that_says_nothing_any_more_is_silent_and_one_that_has_ended_is_not() -> None:
    one = PipelineState("p", {"state": "running", "started": "then"}, heard_ms=NOW_MS)
    one.queries["q"] = query = QueryState("q", {"state": "running"})
    assert (one.state(NOW_MS), one.query_state(query, NOW_MS), one.since) == ("running", "running", "then")
    later = NOW_MS + SILENT_S * 1000 + 1
    assert (one.state(later), one.query_state(query, later)) == ("silent", "silent")
    one.about = {"state": "failed", "at": "now", "error": "why"}
    assert (one.state(later), one.query_state(query, later), one.since, one.error) == ("failed", "failed", "now", "why")


def test_the_error_of_a_query_that_failed_is_that_of_its_pipeline() -> None:
    one = PipelineState("p")
    one.queries = {
        "a": QueryState("a", {"state": "running", "at": "1"}),
        "b": QueryState("b", {"state": "failed", "error": "why", "at": "2"}),
    }
    assert (one.state(0), one.error, one.since) == ("failed", "why", "2")
    assert [each.name for each in in_turn([one, PipelineState("z", {"state": "running"})])] == ["z", "p"]


def test_progress_reads_runs_and_queries_and_passes_over_what_is_neither(
    headrace_shared_server: HeadraceServer, v1: V1, name: str, topic: str
) -> None:
    batch = {
        "pipeline": name,
        "query": "q",
        "state": "running",
        "at": "2026-03-01T09:30:00Z",
        "batch": 1,
        "rows_per_s": 5.0,
        "lag": 7,
    }
    publish(v1, topic, (name, {"state": "starting"}), (f"{name}/q", batch), (f"{name}/q", "no object"), (None, {"state": "x"}))

    async def work(access: Access) -> None:
        progress = Progress(access)
        await progress.refresh()
        one = progress.pipelines[name]
        assert (one.about["state"], one.total("rows_per_s"), one.total("lag")) == ("starting", 5.0, 7)
        publish(
            v1,
            topic,
            (name, {"state": "running"}),
            (f"{name}/q", {**batch, "at": "2026-03-01T09:30:01Z", "batch": 2, "lag": 3}),
        )
        await progress.refresh()
        assert (one.about["state"], one.queries["q"].number("lag"), len(one.queries["q"].points)) == ("running", 3, 2)
        await progress.refresh()
        assert len(one.queries["q"].points) == 2
        assert history("Lag", "records", "lag", list(one.queries.values())) == Drawing(
            "Lag", "records", "times", [], [Line("q", [["2026-03-01T09:30:00Z", 7], ["2026-03-01T09:30:01Z", 3]])]
        )
        assert history("State", "rows", "state_rows", list(one.queries.values())) is None

    with_access(headrace_shared_server, work)


# Tables


def test_a_table_has_the_last_value_of_each_key_and_keeps_up(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str
) -> None:
    publish(v1, topic, ("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3}), ("c", {"n": 4}), ("c", None), ("d", "no object"))

    async def work(access: Access) -> None:
        live = LiveTable(access, topic)
        await live.refresh()
        assert live.rows == {"b": {"n": 2}, "a": {"n": 3}}
        assert live.records == 6
        publish(v1, topic, ("b", {"n": 5}), ("e", {"m": [1]}))
        await live.refresh()
        page = live.page()
        assert (page.columns, page.total) == (["n", "m"], 3)
        assert page.rows == [
            {"id": "e", "c0": "", "c1": "[1]"},
            {"id": "b", "c0": "5", "c1": ""},
            {"id": "a", "c0": "3", "c1": ""},
        ]
        assert [row["id"] for row in live.page(sort="n").rows] == ["e", "a", "b"]
        assert [row["id"] for row in live.page(sort="-n").rows] == ["b", "a", "e"]
        assert [row["id"] for row in live.page(text="[1").rows] == ["e"]

    with_access(headrace_shared_server, work)


def test_a_table_may_go_by_members_and_is_shown_a_page_at_a_time(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str
) -> None:
    publish(v1, topic, *(("same key", {"step": number, "id": f"<b>{number}"}) for number in range(PAGE + 3)))

    async def work(access: Access) -> None:
        live = LiveTable(access, topic, ("step",))
        await live.refresh()
        assert len(live.rows) == PAGE + 3
        first, second = live.page(("id",), sort="step"), live.page(("id",), sort="step", first=PAGE)
        assert (len(first.rows), first.rows[0]["c0"], len(second.rows), second.first) == (PAGE, "<b>0", 3, PAGE)
        assert live.page(first=10**9).first == PAGE

    with_access(headrace_shared_server, work)


def test_older_records_add_rows_and_replace_none(
    headrace_shared_server: HeadraceServer, v1: V1, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_results, "BEHIND", 3)
    publish(v1, topic, ("old", {"n": 0}), ("a", {"n": 1}), ("gone", {"n": 1}), ("a", {"n": 2}), ("gone", None), ("b", {"n": 3}))

    async def work(access: Access) -> None:
        live = LiveTable(access, topic)
        await live.refresh()
        assert (live.rows, live.has_older) == ({"a": {"n": 2}, "b": {"n": 3}}, True)
        await live.further_back()
        assert (live.rows, live.has_older) == ({"old": {"n": 0}, "a": {"n": 2}, "b": {"n": 3}}, False)

    with_access(headrace_shared_server, work)


def test_a_topic_that_is_not_there_is_an_empty_table(headrace_shared_server: HeadraceServer, name: str) -> None:
    async def work(access: Access) -> None:
        live = LiveTable(access, name)
        await live.refresh()
        assert (live.rows, live.page().rows, live.has_older) == ({}, [], False)

    with_access(headrace_shared_server, work)


@pytest.mark.parametrize(
    ("path", "found"),
    [("a", {"b": [1, {"c": 2}]}), ("a.b.1.c", 2), ("a.b.7", None), ("a.x.y", None), ("x.y", 5), ("a.b.²", None)],
)
def test_a_member_is_found_by_its_path(path: str, found: object) -> None:
    assert member({"a": {"b": [1, {"c": 2}]}, "x.y": 5}, path) == found


def test_a_cell_is_one_line_that_turns_nothing_around() -> None:
    assert cell("a\nb\u202ec") == "a b‹U+202E›c"
    assert cell({"a": None}) == '{"a": null}'
    assert len(cell("x" * 1000)) < 210


# Plots


def test_bars_count_together_what_happened_in_the_same_hour_and_show_the_hours_between() -> None:
    rows = [
        {"at": "2026-03-01T09:10:00Z", "kind": "a", "cents": "150"},
        {"at": "2026-03-01T09:59:59Z", "kind": "b", "cents": 50},
        {"at": "2026-03-01T09:00:00Z", "kind": "a", "cents": 100},
        {"at": "2026-03-01T11:00:00Z", "kind": "b", "cents": 1},
        {"at": None, "kind": "b", "cents": 1},
        {"at": "2026-03-01T11:00:00Z", "kind": "b", "cents": "much"},
    ]
    found = drawn(plot(x="at", y="cents", series="kind", scale=0.01, each_s=3600, unit="EUR"), rows)
    assert found == Drawing(
        "T", "EUR", "bars", ["03-01 09:00", "03-01 10:00", "03-01 11:00"],
        [Line("a", [2.5, 0, 0]), Line("b", [0.5, 0, 0.01])], legend=True,
    )  # fmt: skip


def test_a_ranking_has_the_greatest_of_the_window_that_is_asked_for() -> None:
    rows = [
        {"start": f"2026-03-01T09:0{window}:00Z", "name": who, "volume": amount, "panel": panel}
        for window, who, amount, panel in [
            (0, "x", 1, "m"),
            (1, "x", 5, "m"),
            (1, "y", 7, "m"),
            (2, "x", 9, "m"),
            (1, "z", 99, "other"),
        ]
    ]
    wanted = plot(kind="ranking", x="name", y="volume", where={"panel": "m"}, newest="start", back=1, top=5)
    found = drawn(wanted, rows)
    assert found is not None
    assert (found.labels, found.lines[0].values) == (["y", "x"], [7, 5])
    far = drawn(plot(kind="ranking", x="name", y="volume", where={"panel": "m"}, newest="start", back=9), rows)
    assert far is not None
    assert far.labels == ["x"]


def test_categories_stand_in_the_order_that_is_asked_for_and_rows_without_an_amount_are_counted() -> None:
    rows = [
        {"step": "paid", "place": 3},
        {"step": "cart", "place": 2},
        {"step": "cart", "place": 2},
        {"step": "door", "place": 1},
    ]
    found = drawn(plot(x="step", order="place"), rows)
    assert found is not None
    assert (found.labels, found.lines[0].values) == (["door", "cart", "paid"], [1, 2, 1])


def test_a_plot_is_bounded_in_length_and_in_colours() -> None:
    rows = [{"x": number, "s": f"s{number % 40}"} for number in range(500)]
    found = drawn(plot(x="x", series="s"), rows)
    assert found is not None
    assert found.labels == [str(number) for number in range(500 - MOST_X, 500)]
    assert len(found.lines) == MOST_SERIES + 1
    assert found.lines[-1].name == OTHERS


def test_nothing_to_draw_is_no_drawing() -> None:
    assert drawn(plot(x="x"), []) is None
    assert drawn(plot(kind="ranking", x="x", y="y", newest="w"), [{"x": 1}]) is None


@pytest.mark.parametrize(
    "said",
    [None, 7, "x", {}, [None], [{}], [{"topic": 5}], [{"topic": ""}]],
)
def test_a_description_that_is_none_is_left_out(said: object) -> None:
    assert shown_of(said) == []


def test_a_hostile_description_is_held_within_bounds() -> None:
    wild = {
        "kind": "bars", "x": "x" * 10_000, "title": 5, "where": ["no"],
        "top": 10**9, "back": -5, "each_s": True, "scale": "NaN",
    }  # fmt: skip
    said = [{"topic": "t", "columns": ["c", 5] * 100, "plots": [wild, {"kind": "pie", "x": "x"}, "no"] * 10}] * 100
    shows = shown_of(said)
    assert len(shows) == 12
    assert shows[0].columns == ("c",) * 10
    found = shows[0].plots[0]
    assert (len(found.x), found.top, found.back, found.each_s, found.scale, found.where, found.title) == (
        200,
        30,
        0,
        0,
        1.0,
        (),
        "",
    )
    assert len(shows[0].plots) == 2


def test_the_console_understands_every_description_of_the_gallery() -> None:
    pytest.importorskip("pyspark")
    from headrace.spark.runner.finding import find, gallery

    for entry in gallery():
        shows = find(entry.name).shows
        assert shows, f"{entry.name} says nothing about what it writes"
        understood = shown_of(json.loads(json.dumps([one.json() for one in shows])))
        assert [(one.topic, one.title, one.key, one.columns, one.sort) for one in understood] == [
            (one.topic, one.title, tuple(one.key), tuple(one.columns), one.sort) for one in shows
        ]
        for one, there in zip(shows, understood, strict=True):
            assert there.plots, f"{one.topic} of {entry.name} has no plot"
            assert [each.title for each in there.plots] == [each.title for each in one.plots]
            assert [each.top for each in there.plots] == [each.top for each in one.plots]


# The log


def entry(pipeline: str, text: str, level: str = "INFO", query: str = "") -> tuple[str, object]:
    return pipeline, {
        "pipeline": pipeline,
        "query": query,
        "level": level,
        "at": "2026-03-01T09:30:00Z",
        "logger": "L",
        "text": text,
    }


def test_the_log_is_searched_by_text_level_and_query(
    headrace_shared_server: HeadraceServer, v1: V1, name: str, topic: str
) -> None:
    lines = [
        entry(name, "starts"),
        entry(name, "falls behind", "WARN", "alerts"),
        entry(name, "it FAILED\n\tat somewhere", "ERROR", "alerts"),
        entry(name, "printed", "OUT"),
        entry("another", "it failed", "ERROR"),
        (name, "no object"),
        (name, {"pipeline": name, "text": 5}),
    ]
    publish(v1, topic, *lines)

    async def work(access: Access) -> None:
        async def found(**wanted: str) -> list[str]:
            search = LogSearch(access, Wanted(name, **wanted))
            await search.refresh()
            return [line.first for line in search.lines]

        assert await found() == ["starts", "falls behind", "it FAILED", "printed"]
        assert await found(level="INFO") == ["starts", "falls behind", "it FAILED", "printed"]
        assert await found(level="WARN") == ["falls behind", "it FAILED"]
        assert await found(level="ERROR") == ["it FAILED"]
        assert await found(query="alerts") == ["falls behind", "it FAILED"]
        assert await found(text="failed") == ["it FAILED"]
        assert await found(text="SOMEWHERE") == ["it FAILED"]
        assert await found(text="nowhere") == []
        search = LogSearch(access, Wanted(name, text="behind"))
        await search.refresh()
        assert search.queries == {"alerts"}
        publish(v1, topic, entry(name, "behind once more"))
        assert await search.refresh() is True
        assert [line.text for line in search.lines] == ["falls behind", "behind once more"]
        assert await search.refresh() is False

    with_access(headrace_shared_server, work)


def test_a_search_goes_back_in_steps(
    headrace_shared_server: HeadraceServer, v1: V1, name: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_logs, "_AT_ONCE", 10)
    monkeypatch.setattr(pipeline_logs, "FOUND", 3)
    monkeypatch.setattr(pipeline_logs, "LOOKED", 20)
    publish(
        v1, topic, entry(name, "the first"), *(entry("other", f"{number}") for number in range(70)), entry(name, "the last")
    )

    async def work(access: Access) -> None:
        search = LogSearch(access, Wanted(name))
        await search.refresh()
        assert ([line.text for line in search.lines], search.looked_at, search.has_older) == (["the last"], 30, True)
        steps = 0
        while search.has_older:
            await search.further_back()
            steps += 1
        assert ([line.text for line in search.lines], search.looked_at, steps) == (["the first", "the last"], 72, 3)

    with_access(headrace_shared_server, work)


def test_without_a_log_nothing_is_found(
    headrace_shared_server: HeadraceServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_logs, "TOPIC", name)

    async def work(access: Access) -> None:
        search = LogSearch(access, Wanted(name))
        assert (await search.refresh(), list(search.lines), search.has_older) == (False, [], False)

    with_access(headrace_shared_server, work)
