"""Pipelines on Spark: each query's progress, rows in a second, lag, state and watermark; and results as tables.

A pipeline publishes its progress to the topic `headrace.pipelines`, which is read here. Its checkpoint, its Spark log and the
tables that it keeps in SQLite are files of the machine that it runs on: the page names the commands that show them.
"""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.console.access import ServerError
from headrace.console.frame import Page, View
from headrace.console.parts.pieces import heading, plain, shown_rows, state_badge, table
from headrace.console.parts.states import show_empty
from headrace.console.parts.values import count_text, rate_text, size_text
from headrace.console.pipeline_states import POINTS, RESULTS, Progress, QueryState, table_of

POLL_S = 2.0
TABLE_POLL_S = 5.0
_COMMANDS = """headrace pipeline list                          # the gallery
headrace pipeline run banking.fraud --feed      # with live events of its own
headrace pipeline status                        # of every run with this data folder, also those that ended
headrace pipeline stop banking.fraud
tail -f DATA/pipelines/NAME/spark.log           # what Spark says
sqlite3 DATA/pipelines/NAME/tables.db .tables   # the tables that it keeps"""
_COLUMNS = (
    ("name", "Query", "left"),
    ("state", "State", "left"),
    ("rate", "Rows", "right"),
    ("lag", "Lag", "right"),
    ("batch", "Batch", "right"),
    ("took", "Took", "right"),
    ("total", "Rows of this run", "right"),
    ("kept", "State", "right"),
    ("late", "Too late", "right"),
    ("watermark", "Watermark", "left"),
    ("at", "At", "left"),
)


async def pipelines(view: View) -> None:
    view.title("Pipelines")
    progress = Progress(view.access)
    empty = show_empty("No pipeline has published anything", "headrace pipeline run banking.fraud --feed", icon="schema")
    shown = table(_COLUMNS)
    shown.on("row-click", lambda event: chosen(event.args[1]["id"]))
    back = ui.button("Look further back", icon="history", on_click=lambda: view.change(older())).props("flat dense no-caps")
    detail = _Detail(view)

    def show() -> None:
        found = sorted(progress.queries.values(), key=lambda one: (one.ended, one.key))
        empty.visible, shown.visible, back.visible = not found, bool(found), progress.has_older
        shown_rows(shown, [_row(one) for one in found])
        detail.show(progress.queries)

    async def older() -> None:
        await progress.further_back()
        show()

    def chosen(key: str) -> None:
        view.remember(query=key)
        show()

    async def refresh() -> None:
        await progress.refresh()
        show()

    view.every(POLL_S, refresh)
    _Results(view)
    heading("From a shell")
    ui.label(
        "Checkpoints, logs and SQLite tables are files in the data folder of whoever runs a pipeline; a console can't see them."
    ).classes("opacity-70")
    plain(_COMMANDS)


def _row(query: QueryState) -> dict[str, str]:
    last = query.last
    kept, size = last.get("state_rows"), last.get("state_bytes")
    return {
        "id": query.key,
        "name": query.key,
        "state": str(last.get("state", "")),
        "rate": rate_text(_number(last.get("rows_per_s"))),
        "lag": count_text(_number(last.get("lag"))),
        "batch": count_text(_number(last.get("batch"))),
        "took": "–" if _number(last.get("batch_ms")) is None else f"{last['batch_ms']:,} ms",
        "total": count_text(_number(last.get("rows_total"))),
        "kept": "–" if _number(kept) is None else f"{kept:,} rows, {size_text(_number(size))}",
        "late": count_text(_number(last.get("late_rows"))),
        "watermark": str(last.get("watermark") or ""),
        "at": str(last.get("at", "")),
    }


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class _Detail:
    """The query that the address names: its rate over time, its sources, why it failed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._shown: tuple[object, ...] = ()
        self._column = ui.column().classes("w-full gap-2")

    def show(self, queries: dict[str, QueryState]) -> None:
        query = queries.get(self._view.query.get("query", ""))
        state = () if query is None else (query.key, len(query.rates), str(query.last.get("at")))
        if state == self._shown:
            return
        self._shown = state
        self._column.clear()
        if query is not None:
            with self._column, ui.card().classes("w-full gap-2"):
                self._fill(query)

    def _fill(self, query: QueryState) -> None:
        last = query.last
        with ui.row().classes("items-center gap-2"):
            ui.label(query.key).classes("text-lg break-all").props('role="heading" aria-level="2"')
            state_badge(str(last.get("state", "")))
        if last.get("error"):
            ui.label(str(last["error"])).classes("text-negative break-all").props('role="alert"')
        for source in last.get("sources") or ():
            if isinstance(source, dict):
                ui.label(f"reads {source.get('name')}: {source.get('rows')} rows, lag {source.get('lag')}").classes("break-all")
        if query.rates:
            ui.echart(_chart(query.rates)).classes("w-full").style("height: 200px")


def _chart(rates: Any) -> dict[str, Any]:
    moments, values = zip(*rates, strict=True)
    return {
        "title": {
            "text": f"Rows in a second, the last {POINTS} batches",
            "textStyle": {"fontSize": 13, "fontWeight": "normal"},
        },
        "tooltip": {"trigger": "axis"},
        "grid": {"left": 56, "right": 12, "top": 40, "bottom": 24},
        "xAxis": {"type": "category", "data": list(moments), "boundaryGap": False},
        "yAxis": {"type": "value", "min": 0},
        "animation": False,
        "aria": {"enabled": True},
        "series": [{"type": "line", "data": list(values), "showSymbol": len(values) < 3}],
    }


class _Results:
    """A topic as a table: the last value of each key among its newest records."""

    def __init__(self, view: View) -> None:
        self._view = view
        heading("Results")
        with ui.row().classes("items-center gap-2"):
            topic = view.query.get("table", "")
            options = sorted({*RESULTS, *([topic] if topic else [])})
            self._topic = ui.select(options, value=topic or None, label="Topic", with_input=True, new_value_mode="add-unique")
            self._topic.props("dense outlined clearable").classes("w-72")
            self._topic.on_value_change(self._chosen)
            self._told = ui.label("").classes("opacity-70").props('role="status"')
        self._body = ui.column().classes("w-full")
        self._columns: list[str] = []
        self._table: ui.table | None = None
        view.every(TABLE_POLL_S, self._refresh)

    async def _chosen(self) -> None:
        self._view.remember(table=self._topic.value)
        await self._view.change(self._refresh())

    async def _refresh(self) -> None:
        topic = self._topic.value
        if not topic:
            self._told.text = "The gallery writes what it finds to topics; any topic with JSON objects can be shown."
            self._clear()
            return
        try:
            found = await table_of(self._view.access, str(topic))
        except ServerError as error:
            if error.status not in (400, 404):
                raise
            self._told.text = str(error)
            self._clear()
            return
        self._told.text = f"{count_text(len(found.rows))} keys of the newest of {count_text(found.records)} records"
        if found.columns != self._columns or self._table is None:
            self._clear()
            self._columns = found.columns
            with self._body:
                self._table = table([(name, name, "left") for name in found.columns])
        shown_rows(self._table, [dict(row) for row in found.rows])

    def _clear(self) -> None:
        self._body.clear()
        self._table, self._columns = None, []


PAGES = [Page("/pipelines", "Pipelines", pipelines, icon="schema", group="Flow")]
